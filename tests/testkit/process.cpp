#include "tests/testkit/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tessera::testkit {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

}  // namespace

Finished run(const std::string& command) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
  const std::string redirected = "( " + command + " ) >" + folder + "/out 2>" + folder + "/err";
  const int status = std::system(redirected.c_str());
  Finished finished{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                    read(folder + "/out"), read(folder + "/err")};
  std::filesystem::remove_all(folder);
  return finished;
}

}  // namespace tessera::testkit
