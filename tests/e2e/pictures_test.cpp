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
  const std::string from_root = "cd " + (folder / "../..").string() + " && " TESSERA_PROGRAM;
  std::set<std::string> listed;
  std::string all_arguments;
  std::ifstream commands(folder / "commands");
  std::string name;
  for (std::string arguments; commands >> name && std::getline(commands, arguments);) {
    listed.insert(name);
    all_arguments += arguments;
    const auto finished = testkit::run(from_root + arguments + " --svg " + drawn);
    ASSERT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(content_of(folder / name), content_of(drawn))
        << name << " is old; draw it anew: tessera" << arguments << " --svg docs/pictures/" << name;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    const bool is_drawn = file == "commands" || listed.contains(file);
    const bool is_read = all_arguments.find("docs/pictures/" + file) != std::string::npos;
    EXPECT_TRUE(is_drawn || is_read) << file << " has no command";
  }
  EXPECT_GE(listed.size(), 6U);
}

}  // namespace
}  // namespace tessera
