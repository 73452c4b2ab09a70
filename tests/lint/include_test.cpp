// Reads every #include line of the library: rooms look up, never down; torch stays below the line;
// headers stay light.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
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

const fs::path kSource = fs::path(TESSERA_SOURCE_DIR) / "src" / "tessera";

std::vector<Include> includes() {
  static const std::regex line_form(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<Include> found;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    const fs::path relative = entry.path().lexically_relative(kSource);
    auto part = relative.begin();
    const std::string room = *part++;
    const std::string sibling = room == "parallel" && part != relative.end() ? part->string() : "";
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_search(line, match, line_form)) {
        found.push_back({relative, room, sibling, match[1]});
      }
    }
  }
  return found;
}

size_t place(std::string_view room) {
  return static_cast<size_t>(std::ranges::find(kRooms, room) - kRooms.begin());
}

// The room and the folder below it of "tessera/room/folder/file.h".
std::smatch own_parts(const std::string& target) {
  static const std::regex form(R"(^tessera/([^/]+)/(?:([^/]+)/)?[^/]+$)");
  std::smatch match;
  std::regex_match(target, match, form);
  return match;
}

TEST(Includes, AreRead) {
  EXPECT_GT(includes().size(), 50U);
}

TEST(Includes, EveryRoomIsKnown) {
  for (const auto& entry : fs::directory_iterator(kSource)) {
    if (!entry.is_directory()) continue;
    EXPECT_LT(place(entry.path().filename().string()), kRooms.size())
        << entry.path() << " is not in tests/lint/rooms.h";
  }
}

TEST(Includes, RoomsLookUpNeverDown) {
  for (const Include& include : includes()) {
    const std::smatch parts = own_parts(include.target);
    if (parts.empty()) continue;
    EXPECT_LE(place(parts[1].str()), place(include.room))
        << include.file << " includes " << include.target << ", which lies below its room";
    if (include.sibling.empty() || parts[1] != "parallel") continue;
    EXPECT_EQ(parts[2], include.sibling) << include.file << " includes " << include.target
                                         << "; strategies never include each other";
  }
}

bool is_torch(const std::string& target) {
  static const std::regex form(R"(^(torch|ATen|c10|caffe2)/)");
  return std::regex_search(target, form);
}

TEST(Includes, TheCoreHasNoTorch) {
  for (const Include& include : includes()) {
    if (place(include.room) >= place(kFirstTorchRoom)) continue;
    EXPECT_FALSE(is_torch(include.target)) << include.file << " includes " << include.target;
  }
}

TEST(Includes, HeadersStayLight) {
  static const std::regex heavy(
      R"(^(torch/torch\.h|torch/types\.h|ATen/ATen\.h|torch/csrc/distributed/.*))");
  for (const Include& include : includes()) {
    if (include.file.extension() != ".h") continue;
    EXPECT_FALSE(std::regex_search(include.target, heavy))
        << include.file << " includes " << include.target << "; forward-declare instead";
  }
}

TEST(Documents, NameEveryRoomThatExists) {
  std::ifstream file(fs::path(TESSERA_SOURCE_DIR) / "docs" / "architecture.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const auto& entry : fs::directory_iterator(kSource)) {
    if (!entry.is_directory()) continue;
    const std::string room = entry.path().filename();
    EXPECT_NE(text.find("`" + room + "/`"), std::string::npos) << room << " has no line";
  }
}

}  // namespace
}  // namespace tessera::lint
