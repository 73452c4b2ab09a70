#pragma once

#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The rank's side of a launcher: reports of a process that `tessera run` or torchrun started.

/// Tells the launcher that this rank has connected to the others: writes a byte to the pipe
/// TESSERA_HEALTH_FD and closes it. Does nothing without a launcher. Idempotent.
void report_healthy();

/// Writes the file named by TORCHELASTIC_ERROR_FILE in torchrun's form: {"message": {"message": …,
/// "extraInfo": {"py_callstack": …, "timestamp": seconds}}}. The first report stays. Returns
/// whether there is a report that the launcher can show; false if the variable is not set.
bool report_error(std::string_view message) noexcept;

/// From now on, uncaught exceptions are reported by report_error before the process ends as it
/// would have. Idempotent.
void report_uncaught();

}  // namespace tessera
