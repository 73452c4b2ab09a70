#include "tessera/launch/signal_handlers.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Whether the status file of a process lists the signal as caught.
bool handles(const fs::path& process, int signal) {
  std::ifstream file(process / "status");
  for (std::string word; file >> word;) {
    if (word != "SigCgt:") continue;
    uint64_t caught = 0;
    file >> std::hex >> caught;
    return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace

std::vector<pid_t> handlers_of(int signal, pid_t group) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto pid = to_integer(entry.path().filename().native());
    if (!pid || getpgid(static_cast<pid_t>(*pid)) != group) continue;
    if (handles(entry.path(), signal)) found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

}  // namespace tessera
