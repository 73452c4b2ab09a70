// What an emulated kernel and the emulator know of each other.
#pragma once

namespace tessera::emulator {

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

// Where the running thread is, and how it waits for others.
struct Machine {
  Dimensions thread, block, threads_of_block, blocks;
  void (*synchronize_block)();
  // Gives `mine` to the warp, and returns what `lane` of the warp gives.
  void (*shuffle)(const void* mine, void* theirs, unsigned size, unsigned lane);
};

}  // namespace tessera::emulator
