// The pictures in the documentation are what the program draws today.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Pictures, AreWhatTheirCommandsDraw) {
  const fs::path folder = TESSERA_PICTURES;
  const testkit::TemporaryFolder temporary;
  const std::string drawn = temporary.path("drawn.svg");
  std::set<std::string> listed;
  std::ifstream commands(folder / "commands");
  std::string name;
  for (std::string arguments; commands >> name && std::getline(commands, arguments);) {
    listed.insert(name);
    const auto finished = testkit::run(TESSERA_PROGRAM + arguments + " --svg " + drawn);
    ASSERT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(content_of(folder / name), content_of(drawn))
        << name << " is old; draw it anew: tessera" << arguments << " --svg docs/pictures/" << name;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    EXPECT_TRUE(file == "commands" || listed.contains(file)) << file << " has no command";
  }
  EXPECT_GE(listed.size(), 6U);
}

}  // namespace
}  // namespace tessera
