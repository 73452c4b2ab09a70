// Where the time of a GPU goes: the kernels of any program, summed by name. A library that the
// driver loads into it:
//
//   CUDA_INJECTION64_PATH=./libgpu_times.so GPU_TIMES=times.txt tessera train --device cuda …
//
// Built by hand where CUPTI is: g++ -shared -fPIC -O2 -I$CUPTI/include bench/gpu_times.cpp -o
// libgpu_times.so $CUPTI/lib/libcupti.so
#include <cupti.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

struct Total {
  double milliseconds = 0;
  long launches = 0;
};

std::map<std::string, Total>& totals() {
  static auto* const all = new std::map<std::string, Total>;  // It outlives all threads.
  return *all;
}

void give_buffer(uint8_t** buffer, size_t* size, size_t* records) {
  *size = size_t{8} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *records = 0;
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    Total& total = totals()[kernel->name];
    total.milliseconds += static_cast<double>(kernel->end - kernel->start) * 1e-6;
    ++total.launches;
  }
  std::free(buffer);
}

void write_totals() {
  cuptiActivityFlushAll(1);
  const char* const path = std::getenv("GPU_TIMES");
  std::FILE* const file = path == nullptr ? stderr : std::fopen(path, "w");
  std::vector<std::pair<std::string, Total>> sorted(totals().begin(), totals().end());
  std::ranges::sort(sorted, {}, [](const auto& one) { return -one.second.milliseconds; });
  for (const auto& [name, total] : sorted) {
    std::fprintf(file, "%10.3f ms %7ld  %s\n", total.milliseconds, total.launches,
                 name.substr(0, 150).c_str());
  }
}

}  // namespace

extern "C" int InitializeInjection() {
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::atexit(write_totals);
  return 1;
}
