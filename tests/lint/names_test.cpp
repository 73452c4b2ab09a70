// Every public name of the documents that the dialects follow is in its header and on its page.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace tessera::lint {
namespace {

using nlohmann::json;

std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(TESSERA_SOURCE_DIR "/") + file);
  EXPECT_TRUE(stream) << file;
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Comments do not declare anything.
std::string without_comments(const std::string& code) {
  return std::regex_replace(code, std::regex("//[^\n]*"), "");
}

bool declares(const std::string& text, const std::string& name) {
  return std::regex_search(text, std::regex("\\b" + name + "\\("));
}

struct Dialect {
  std::string document;              // Its key in the list of names.
  std::vector<std::string> headers;  // The dialect's, and those that it takes names from.
  std::string page;
};

void check_names(const Dialect& dialect) {
  const json names = json::parse(text_of("tests/golden/seed_names.json")).at(dialect.document);
  std::string code;
  for (const std::string& header : dialect.headers) code += without_comments(text_of(header));
  const std::string page = text_of(dialect.page);
  ASSERT_FALSE(names.empty());
  for (const std::string name : names) {
    EXPECT_TRUE(declares(code, name)) << name << " is missing in " << dialect.headers[0];
    EXPECT_TRUE(declares(page, name)) << name << " is missing in " << dialect.page;
  }
}

TEST(Names, OfMegatronsDocumentAreThere) {
  check_names(
      {"megatron/parallel_state",
       {"src/tessera/dialect/megatron/parallel_state.h", "src/tessera/topology/rank_generator.h"},
       "docs/dialects/megatron.md"});
}

TEST(Names, OfOlmosTensorsAreThere) {
  check_names({"olmo/tensors",
               {"src/tessera/dialect/olmo/tensors.h", "src/tessera/tensor/sharded_flat_tensor.h",
                "src/tessera/tensor/sharding_spec.h"},
               "docs/dialects/olmo.md"});
}

TEST(Names, DeclarationsAreFound) {
  EXPECT_TRUE(declares("int64_t get_rank(bool x);", "get_rank"));
  EXPECT_FALSE(declares("int64_t get_rank_of(bool x);", "get_rank"));
  EXPECT_FALSE(declares("int64_t my_get_rank(bool x);", "get_rank"));
  EXPECT_FALSE(declares(without_comments("// get_rank()"), "get_rank"));
}

}  // namespace
}  // namespace tessera::lint
