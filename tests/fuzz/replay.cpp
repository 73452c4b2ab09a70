// Stands in for libFuzzer where it is not linked: runs every file of the given folders once, and
// then a fixed number of random changes of each.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kChangesOfEach = 2000;

std::vector<uint8_t> changed(std::vector<uint8_t> bytes, std::mt19937& random) {
  const auto any = [&](size_t below) { return static_cast<size_t>(random()) % below; };
  for (size_t i = 0; i <= any(3); ++i) {
    const size_t at = any(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    if (any(3) == 0 || at == bytes.size()) {
      bytes.insert(place, static_cast<uint8_t>(random()));
    } else if (any(2) == 0) {
      bytes.erase(place);
    } else {
      bytes[at] = static_cast<uint8_t>(random());
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      std::mt19937 random(0);  // The same changes in every run.
      for (int change = 0; change < kChangesOfEach; ++change) {
        const std::vector<uint8_t> other = changed(bytes, random);
        LLVMFuzzerTestOneInput(other.data(), other.size());
      }
      ++count;
    }
  }
  std::cout << count << " inputs replayed\n";
  return count > 0 ? 0 : 1;
}
