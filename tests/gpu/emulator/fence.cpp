// In this program, each tensor ends just before memory that nobody may touch, and holds garbage at
// first.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <new>

namespace tessera::emulator {
namespace {

constexpr size_t kAlignment = 64;  // LibTorch's.

size_t rounded_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// The pages of a tensor, and one behind them that can be neither read nor written.
struct Pages {
  std::byte* begin;
  size_t size;

  explicit Pages(size_t wanted) : size(rounded_up(wanted, page()) + page()) {
    void* const made =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    begin = static_cast<std::byte*>(made);
    if (mprotect(begin + size - page(), page(), PROT_NONE) != 0) throw std::bad_alloc();
  }
  ~Pages() { munmap(begin, size); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
};

constexpr auto kUntouched = static_cast<std::byte>(0xFF);  // No number, in any dtype.

struct Tensor {
  Pages pages;
  std::byte* data;
  size_t size;

  explicit Tensor(size_t bytes)
      : pages(bytes),
        data(pages.begin + pages.size - Pages::page() - rounded_up(bytes, kAlignment)),
        size(bytes) {
    std::fill(data, data + rounded_up(bytes, kAlignment), kUntouched);
  }
  ~Tensor() {
    for (std::byte* at = data + size; at < data + rounded_up(size, kAlignment); ++at) {
      if (*at == kUntouched) continue;
      std::cerr << "a kernel wrote " << at - data - static_cast<long>(size)
                << " bytes behind a tensor of " << size << " bytes\n";
      std::abort();
    }
  }
};

// LibTorch gives back a tensor by its address alone.
class Fence final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free, at::kCPU};
    auto tensor = std::make_unique<Tensor>(bytes);
    void* const data = tensor->data;
    const std::lock_guard lock(mutex());
    alive()[data] = std::move(tensor);
    return {data, data, &free, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free(void* data) {
    const std::lock_guard lock(mutex());
    alive().erase(data);
  }
  // Never destroyed: other objects of the program may give back tensors later.
  static std::mutex& mutex() {
    static auto* const made = new std::mutex;
    return *made;
  }
  static std::map<void*, std::unique_ptr<Tensor>>& alive() {
    static auto* const made = new std::map<void*, std::unique_ptr<Tensor>>;
    return *made;
  }
};

// Before any test makes a tensor.
const bool kIsSet = [] {
  static Fence fence;
  c10::SetCPUAllocator(&fence, /*priority=*/1);
  return true;
}();

}  // namespace
}  // namespace tessera::emulator
