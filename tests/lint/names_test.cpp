// Every public name of the documents that the dialects follow is in its header and on its page.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lint/source_text.h"

namespace tessera::lint {
namespace {

using nlohmann::json;

// A function, a type or a field.
bool declares(const std::string& text, const std::string& name) {
  return std::regex_search(
      text, std::regex("\\b" + name + "\\(|(class|struct) " + name + "\\b|[>\\w] " + name + " ="));
}

// A page has a function with its arguments, and a type or field as code.
bool shows(const std::string& page, const std::string& name) {
  return std::regex_search(page, std::regex("\\b" + name + "\\(|`" + name + "\\b"));
}

struct Dialect {
  std::string document;              // Its key in the list of names.
  std::vector<std::string> headers;  // The dialect's, and those that it takes names from.
  std::string page;
  std::vector<std::string> later = {};  // What does not exist yet.
};

void check_names(const Dialect& dialect) {
  const json names = json::parse(text_of("tests/golden/seed_names.json")).at(dialect.document);
  std::string code;
  for (const std::string& header : dialect.headers) code += without_comments(text_of(header));
  const std::string page = text_of(dialect.page);
  ASSERT_FALSE(names.empty());
  for (const std::string name : names) {
    const auto& later = dialect.later;
    if (std::find(later.begin(), later.end(), name) != later.end()) continue;
    EXPECT_TRUE(declares(code, name)) << name << " is missing in " << dialect.headers[0];
    EXPECT_TRUE(shows(page, name)) << name << " is missing in " << dialect.page;
  }
}

TEST(Names, OfMegatronsDocumentAreThere) {
  check_names(
      {"megatron/parallel_state",
       {"src/tessera/dialect/megatron/functions.h", "src/tessera/dialect/megatron/parallel_state.h",
        "src/tessera/topology/rank_generator.h"},
       "docs/dialects/megatron.md"});
}

TEST(Names, OfOlmosDocumentOfMeshesAreThere) {
  check_names({"olmo/parallel",
               {"src/tessera/dialect/olmo/parallel.h", "src/tessera/plan/olmo/config.h"},
               "docs/dialects/olmo.md"});
}

TEST(Names, OfOlmosUtilitiesAreThere) {
  check_names({"olmo/utils", {"src/tessera/dialect/olmo/utils.h"}, "docs/dialects/olmo.md"});
}

TEST(Names, OfNemosDocumentAreThere) {
  const std::vector<std::string> axes{"ep_shard", "dp_shard_cp", "dp_cp"};  // Texts, no C++ names.
  check_names({"nemo/mesh_utils",
               {"src/tessera/dialect/nemo/mesh_utils.h", "src/tessera/plan/nemo/plan.h",
                "src/tessera/plan/nemo/config.h"},
               "docs/dialects/nemo.md",
               axes});
  for (const std::string& axis : axes) {
    EXPECT_NE(text_of("src/tessera/plan/nemo/plan.cpp").find('"' + axis + '"'), std::string::npos);
    EXPECT_TRUE(shows(text_of("docs/dialects/nemo.md"), axis)) << axis;
  }
}

TEST(Names, OfOlmosTensorsAreThere) {
  check_names({"olmo/tensors",
               {"src/tessera/dialect/olmo/tensors.h", "src/tessera/tensor/sharded_flat_tensor.h",
                "src/tessera/tensor/sharding_spec.h"},
               "docs/dialects/olmo.md"});
}

// The lines of a page's blocks of ported code.
std::vector<std::string> ported_lines(const std::string& page) {
  std::istringstream text(text_of(page));
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (inside && line == "```") inside = false;
    if (inside && !line.empty()) lines.push_back(line);
    if (line == "```c++") inside = true;
  }
  return lines;
}

TEST(Ports, OnThePagesAreTheExamples) {
  std::string examples;
  for (const char* name : {"olmo_parallel", "olmo_utils", "olmo_tensors", "megatron_parallel_state",
                           "nemo_mesh_utils"}) {
    examples += text_of(std::string("examples/port_") + name + "/main.cpp");
  }
  for (const char* page : {"olmo", "megatron", "nemo"}) {
    const auto lines = ported_lines(std::string("docs/dialects/") + page + ".md");
    EXPECT_FALSE(lines.empty()) << page;
    for (const std::string& line : lines) {
      EXPECT_NE(examples.find("\n  " + line + "\n"), std::string::npos) << page << ": " << line;
    }
  }
}

TEST(Names, DeclarationsAreFound) {
  EXPECT_TRUE(declares("int64_t get_rank(bool x);", "get_rank"));
  EXPECT_FALSE(declares("int64_t get_rank_of(bool x);", "get_rank"));
  EXPECT_FALSE(declares("int64_t my_get_rank(bool x);", "get_rank"));
  EXPECT_FALSE(declares(without_comments("// get_rank()"), "get_rank"));
  EXPECT_TRUE(declares("enum class Kind { a };", "Kind"));
  EXPECT_TRUE(declares("  std::optional<int64_t> num_replicas = std::nullopt;", "num_replicas"));
  EXPECT_FALSE(declares("  int64_t my_degree = 1;", "degree"));
  EXPECT_FALSE(declares("struct PipelineScheduleType", "PipelineSchedule"));
  EXPECT_TRUE(shows("| `degree`, `style = nullopt` |", "style"));
  EXPECT_FALSE(shows("a degree of one", "degree"));
}

}  // namespace
}  // namespace tessera::lint
