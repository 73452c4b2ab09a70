#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tessera::testkit {

/// Counts the bytes of all live CPU tensors of all threads, from its construction until the end of
/// the process.
class LiveMemory final : public c10::Allocator {
 public:
  static LiveMemory& watch() {
    static LiveMemory memory;
    return memory;
  }

  int64_t bytes() const { return bytes_; }
  /// The most bytes since reset_peak().
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = bytes_.load(); }

  /// Waits until between `bytes` and `bytes` + `slack` are live; false on timeout. An engine's
  /// thread releases the tensors of an operation shortly after its end.
  bool settles_at(int64_t bytes, int64_t slack) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (bytes_ < bytes || bytes_ > bytes + slack) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  c10::DataPtr allocate(size_t size) override {
    auto* const block = new Block{base_->allocate(size), static_cast<int64_t>(size)};
    const int64_t now = bytes_ += block->size;
    for (int64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) {
    }
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
  std::atomic<int64_t> peak_ = 0;
};

}  // namespace tessera::testkit
