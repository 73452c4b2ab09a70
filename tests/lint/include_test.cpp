// Reads every #include line of the library: rooms look up, never down; torch stays below the line;
// headers stay light.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/lint/rooms.h"

namespace tessera::lint {
namespace {

namespace fs = std::filesystem;

struct Include {
  fs::path file;
  std::string room;     // Of the including file.
  std::string sibling;  // The folder below parallel/, otherwise "".
  std::string target;   // What stands between the brackets or quotes.
};

const fs::path kLibrary = fs::path(TESSERA_SOURCE_DIR) / "src" / "tessera";

// What an #include line includes.
std::optional<std::string> target_of(const std::string& line) {
  const size_t begin = line.find_first_of("<\"");
  if (!line.starts_with("#include") || begin == std::string::npos) return std::nullopt;
  return line.substr(begin + 1, line.find_first_of(">\"", begin + 1) - begin - 1);
}

std::vector<std::string> parts_of(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path) parts.push_back(part.string());
  return parts;
}

// The folder below parallel/ that a path in a room lies in; strategies are siblings.
std::string sibling_of(const std::vector<std::string>& parts) {
  return parts[0] == "parallel" && parts.size() > 2 ? parts[1] : "";
}

std::vector<Include> includes() {
  std::vector<Include> found;
  for (const auto& entry : fs::recursive_directory_iterator(kLibrary)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    const fs::path relative = entry.path().lexically_relative(kLibrary);
    const auto parts = parts_of(relative);
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const auto target = target_of(line);
      if (target) found.push_back({relative, parts[0], sibling_of(parts), *target});
    }
  }
  return found;
}

size_t place(std::string_view room) {
  return static_cast<size_t>(std::ranges::find(kRooms, room) - kRooms.begin());
}

TEST(Includes, AreRead) {
  EXPECT_GT(includes().size(), 50U);
}

TEST(Includes, EveryRoomIsKnown) {
  for (const auto& entry : fs::directory_iterator(kLibrary)) {
    if (!entry.is_directory()) continue;
    EXPECT_LT(place(entry.path().filename().string()), kRooms.size())
        << entry.path() << " is not in tests/lint/rooms.h";
  }
}

TEST(Includes, RoomsLookUpNeverDown) {
  for (const Include& include : includes()) {
    if (!include.target.starts_with("tessera/")) continue;
    const auto target = parts_of(include.target.substr(std::string_view("tessera/").size()));
    EXPECT_LE(place(target[0]), place(include.room))
        << include.file << " includes " << include.target << ", which lies below its room";
    // What lies in parallel/ itself is for all strategies.
    if (include.sibling.empty() || sibling_of(target).empty()) continue;
    EXPECT_EQ(sibling_of(target), include.sibling) << include.file << " includes " << include.target
                                                   << "; strategies never include each other";
  }
}

bool is_torch(const std::string& target) {
  return std::ranges::any_of(std::array{"torch/", "ATen/", "c10/", "caffe2/"},
                             [&](const char* folder) { return target.starts_with(folder); });
}

TEST(Includes, TheCoreHasNoTorch) {
  for (const Include& include : includes()) {
    if (place(include.room) >= place(kFirstTorchRoom)) continue;
    EXPECT_FALSE(is_torch(include.target)) << include.file << " includes " << include.target;
  }
}

TEST(Includes, HeadersStayLight) {
  for (const Include& include : includes()) {
    const auto parts = parts_of(include.file);
    const bool internal =
        std::ranges::find(parts, "internal") != parts.end();  // Seen by sources alone.
    if (include.file.extension() != ".h" || internal) continue;
    const bool heavy = include.target == "torch/torch.h" || include.target == "torch/types.h" ||
                       include.target == "ATen/ATen.h" ||
                       include.target.starts_with("torch/csrc/distributed/");
    EXPECT_FALSE(heavy) << include.file << " includes " << include.target
                        << "; forward-declare instead";
  }
}

TEST(Documents, NameEveryRoomThatExists) {
  std::ifstream file(fs::path(TESSERA_SOURCE_DIR) / "docs" / "architecture.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const auto& entry : fs::directory_iterator(kLibrary)) {
    if (!entry.is_directory()) continue;
    const std::string room = entry.path().filename();
    EXPECT_NE(text.find("`" + room + "/`"), std::string::npos) << room << " has no line";
  }
}

}  // namespace
}  // namespace tessera::lint
