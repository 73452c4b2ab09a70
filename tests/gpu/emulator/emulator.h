// Kernels of a GPU on a CPU: their text is compiled by the compiler of this program, and the
// threads of a block take turns. Warps and their threads run forwards in one block and backwards in
// the next, so that results without a barrier differ. It refuses barriers that threads miss and
// shuffles with threads that have ended. The program ends at loads and stores outside of tensors,
// or at addresses that are not aligned. It does not see threads that shuffle in different places of
// the text, nor shared memory that nobody has set.
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
