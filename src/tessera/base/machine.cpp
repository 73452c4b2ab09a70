#include "tessera/base/machine.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "tessera/base/read_file.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// A limit of the container: a number and a line break, or "max".
int64_t group_limit(const char* path) {
  if (!std::filesystem::exists(path)) return kUnknown;
  const std::string text = read_file(path, 64);
  return to_integer(text.substr(0, text.find('\n'))).value_or(kUnknown);
}

}  // namespace

int64_t machine_memory() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return kUnknown;
  const auto bytes = [&](uint64_t units) { return static_cast<int64_t>(units * info.mem_unit); };
  return bytes(info.totalswap) +
         std::min({bytes(info.totalram), group_limit("/sys/fs/cgroup/memory.max"),
                   group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace tessera
