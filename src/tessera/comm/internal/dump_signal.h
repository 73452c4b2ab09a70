#pragma once

#include <memory>

namespace tessera::comm::detail {

class Recorder;

/// From now on SIGUSR1 makes this process write the recorder's dump, for as long as the recorder
/// lives. A program that handles SIGUSR1 itself keeps its own handler.
void dump_on_signal(const std::weak_ptr<const Recorder>& recorder);

}  // namespace tessera::comm::detail
