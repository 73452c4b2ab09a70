#include "tests/testkit/process.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/testkit/temporary_folder.h"

namespace tessera::testkit {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

}  // namespace

Finished run(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = folder.path("out");
  const std::string err = folder.path("err");
  const int status = std::system(("( " + command + " ) >" + out + " 2>" + err).c_str());
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read(out), read(err)};
}

}  // namespace tessera::testkit
