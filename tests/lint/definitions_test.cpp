// One name, one definition: the one-definition rule, which no linker checks.
#include "tests/lint/definitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

namespace tessera::lint {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = fs::path(TESSERA_SOURCE_DIR) / "src";

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> sources() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string extension = entry.path().extension();
    const bool foreign = entry.path().string().find("/shim/") != std::string::npos;
    if (!foreign && (extension == ".h" || extension == ".cpp")) found.push_back(entry.path());
  }
  return found;
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (const Definition& one : definitions_in(text, "x.h")) names.push_back(one.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Definitions, AreFound) {
  EXPECT_EQ(names_in("namespace a TSR_API {\nclass X;\nstruct Y : X { struct Z {}; };\n}"),
            Names{"a::Y"});
  EXPECT_EQ(names_in("namespace a::b { enum class K { x }; using T = int; }"),
            (Names{"a::b::K", "a::b::T"}));
  EXPECT_EQ(names_in("namespace a { template <class T> class [[nodiscard]] V final {}; }"),
            Names{"a::V"});
  EXPECT_EQ(names_in("namespace a { namespace { struct H {}; } struct S::P { int x; }; }"),
            Names{"a::S::P"});
  EXPECT_EQ(names_in("namespace a { void f() { struct L {}; } // struct C {};\n }"), Names{});
  EXPECT_EQ(names_in("namespace a { const char* t = \"struct Q {\"; struct R {}; }"),
            Names{"a::R"});
}

TEST(Definitions, PlantedDuplicatesAreNamed) {
  std::vector<Definition> all = definitions_in("namespace t { class Engine { }; }", "one.h");
  for (const Definition& one :
       definitions_in("namespace t { class Engine { int x; }; }", "two.h")) {
    all.push_back(one);
  }
  EXPECT_EQ(defined_twice(all), Names{"t::Engine is defined in one.h and in two.h"});
}

TEST(Definitions, EachNameHasOne) {
  std::vector<Definition> all;
  for (const fs::path& path : sources()) {
    const auto found = definitions_in(content_of(path), path.lexically_relative(kSource).string());
    all.insert(all.end(), found.begin(), found.end());
  }
  EXPECT_GT(all.size(), 300U);
  for (const std::string& line : defined_twice(all)) ADD_FAILURE() << line;
}

// "comm/internal/state.h" belongs to tessera::comm::detail, "parallel/ddp/internal/bucket.h" to
// tessera::ddp::detail.
TEST(Definitions, InternalHeadersAreInTheirRoomsDetail) {
  const std::regex opening(R"((?:^|\n)namespace ([\w:]+))");
  for (const fs::path& path : sources()) {
    const fs::path folder = path.parent_path();
    if (folder.filename() != "internal" || path.extension() != ".h") continue;
    const std::string home = "tessera::" + folder.parent_path().filename().string() + "::detail";
    const std::string text = content_of(path);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), opening);
         at != std::sregex_iterator(); ++at) {
      EXPECT_TRUE((*at)[1].str().starts_with(home)) << path << " opens " << (*at)[1];
    }
  }
}

}  // namespace
}  // namespace tessera::lint
