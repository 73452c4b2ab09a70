#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The rank's side of a launcher: reports of a process that `tessera run` or torchrun started.

/// The exit code of a rank that has saved its state because it was told to stop: run the same
/// command again to resume. The launchers end with it, too. It is EX_TEMPFAIL of sysexits.h.
inline constexpr int kResumeExitCode = 75;

/// From now on a thread of this process writes heartbeats to the pipe TESSERA_HEALTH_FD of its
/// launcher, with the text of `place`: its current operation. If they stop, the launcher ends this
/// rank. A later call replaces `place`. Does nothing without a launcher.
void send_heartbeats(std::function<std::string()> place);

/// Tells the launcher that this rank has connected to the others: writes a byte to the pipe, and
/// closes it if the rank sends no heartbeats. Does nothing without a launcher. Idempotent.
void report_healthy();

/// Whether a launcher watches the heartbeats of this process.
bool has_watching_launcher();

/// Writes the file named by TORCHELASTIC_ERROR_FILE in torchrun's form: {"message": {"message": …,
/// "extraInfo": {"py_callstack": …, "timestamp": seconds}}}. The first report stays. Returns
/// whether there is a report that the launcher can show; false if the variable is not set.
bool report_error(std::string_view message) noexcept;

/// From now on, uncaught exceptions are reported by report_error before the process ends as it
/// would have. Idempotent.
void report_uncaught();

}  // namespace tessera
