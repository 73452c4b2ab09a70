// Kernels of a GPU on a CPU: their text is compiled by the compiler of this program, and the
// threads of a block take turns. It finds what a GPU's own checkers look for: threads that miss a
// barrier, shuffles with threads that have ended, loads and stores outside of tensors, at addresses
// that are not aligned, and results that depend on the order of threads.
#pragma once

namespace tessera::emulator {

// While it lives, the tensors of this process are ordinary ones, without kernels.
class Paused {
 public:
  Paused();
  ~Paused();
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;
};

}  // namespace tessera::emulator
