#pragma once

#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The rank's side of a launcher: what a process that `tessera run` or torchrun started tells it.

/// Tells the launcher that this rank has met the others: a byte on the pipe TESSERA_HEALTH_FD,
/// which is closed and forgotten afterwards. Nothing where nobody waits. Once is enough.
void report_healthy();

/// Writes the file that TORCHELASTIC_ERROR_FILE names, in torchrun's form: {"message": {"message":
/// …, "extraInfo": {"py_callstack": …, "timestamp": seconds}}}. The first report stays. Returns
/// whether there is a report that the launcher can show; not where the variable is not set.
bool report_error(std::string_view message) noexcept;

/// From now on an exception that nobody catches is reported by report_error before the process ends
/// as it would have. Once is enough.
void report_uncaught();

}  // namespace tessera
