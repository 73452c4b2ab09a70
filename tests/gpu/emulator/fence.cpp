// In this program, each tensor begins just behind or ends just before memory that nobody may touch,
// and holds garbage at first. The rest of its pages, on the other side, must not change.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <span>

namespace tessera::emulator {
namespace {

constexpr size_t kAlignment = 64;  // LibTorch's.

size_t rounded_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

constexpr auto kUntouched = static_cast<std::byte>(0xFF);  // No number, in any dtype.

// Between two pages that can be neither read nor written.
struct Pages {
  std::span<std::byte> usable;

  explicit Pages(size_t wanted) {
    const size_t size = rounded_up(wanted, page());
    void* const made =
        mmap(nullptr, size + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    usable = {static_cast<std::byte*>(made) + page(), size};
    if (mprotect(usable.data(), size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::ranges::fill(usable, kUntouched);
  }
  ~Pages() { munmap(usable.data() - page(), usable.size() + 2 * page()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
};

// Which side of a tensor lies at a guard. On the other side only stores that change something are
// found, which NaN + 1 does not. Random, since a kernel's tensors are often made in the same order.
bool is_at_the_end() {
  static std::mutex mutex;
  static std::minstd_rand random;
  const std::lock_guard lock(mutex);
  return random() % 2 == 0;
}

struct Tensor {
  Pages pages;
  std::span<std::byte> bytes;

  explicit Tensor(size_t size)
      : pages(size),
        bytes(pages.usable.subspan(
            is_at_the_end() ? pages.usable.size() - rounded_up(size, kAlignment) : 0, size)) {}
  ~Tensor() {
    check(std::span(pages.usable.data(), bytes.data()), "in front of");
    check(std::span(std::to_address(bytes.end()), std::to_address(pages.usable.end())), "behind");
  }

 private:
  void check(std::span<const std::byte> beside, const char* where) const {
    if (std::ranges::all_of(beside, [](std::byte at) { return at == kUntouched; })) return;
    std::cerr << "a kernel wrote " << where << " a tensor of " << bytes.size() << " bytes\n";
    std::abort();
  }
};

// LibTorch gives back a tensor by its address alone.
class Fence final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free, at::kCPU};
    auto tensor = std::make_unique<Tensor>(bytes);
    void* const data = tensor->bytes.data();
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
