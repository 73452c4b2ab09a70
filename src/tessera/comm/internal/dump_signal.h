#pragma once

#include <memory>

namespace tessera::comm::detail {

class Recorder;

/// From now on SIGUSR1 makes this process write the recorder's dump, as long as the recorder lives.
/// See dump_on_signal().
void add_to_dumps(const std::weak_ptr<const Recorder>& recorder);

}  // namespace tessera::comm::detail
