#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>

namespace tessera::testkit {

/// Counts the bytes of all CPU tensors that live, whichever thread makes or frees them, from when
/// it is made until the end of the process.
class LiveMemory final : public c10::Allocator {
 public:
  static LiveMemory& watch() {
    static LiveMemory memory;
    return memory;
  }

  int64_t bytes() const { return bytes_; }

  c10::DataPtr allocate(size_t size) override {
    auto* const block = new Block{base_->allocate(size), static_cast<int64_t>(size)};
    bytes_ += block->size;
    return {block->memory.get(), block, &LiveMemory::free, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t size) const override {
    base_->copy_data(to, from, size);
  }

 private:
  struct Block {
    c10::DataPtr memory;
    int64_t size;
  };

  LiveMemory() : base_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 1); }
  static void free(void* context) {
    auto* const block = static_cast<Block*>(context);
    watch().bytes_ -= block->size;
    delete block;
  }

  c10::Allocator* base_;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace tessera::testkit
