// Every function, method and class of the documents that the dialects follow has its parameters
// here: the same names in the same order, with the same defaults. What differs on purpose is listed
// below and stands in the page's table of differences. Declarations on the page are the headers'.
#include "tests/lint/signatures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tests/lint/source_text.h"

namespace tessera::lint {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

/// A signature that differs, as it is here.
struct Difference {
  std::string name;
  std::string here;
};

struct Document {
  std::string key;  // In the table of signatures.
  Texts headers;    // In which its names are declared.
  std::string page;
  std::vector<Difference> differences = {};
  Texts options = {};  // Structs whose fields are its keyword arguments.
};

// Values of C++ as the table writes them.
std::string value_text(std::string value) {
  static const std::map<std::string, std::string> kKnown{
      {"nullopt", "None"},
      {"nullptr", "None"},
      {"{}", "None"},
      {"true", "True"},
      {"false", "False"},
      {"ReduceOp::kSum", "SUM"},
      {"chrono::seconds(1800)", "1800 s"},
      {"DType::float32", "'float32'"},
      {"PipelineScheduleType::interleaved_1F1B", "'Interleaved1F1B'"},
  };
  value = std::regex_replace(value, std::regex("\\bstd::"), "");
  if (const auto known = kKnown.find(value); known != kKnown.end()) return known->second;
  return std::regex_replace(value, std::regex("\""), "'");
}

std::string text_of_one(const Parameter& parameter) {
  return parameter.value ? parameter.name + "=" + value_text(*parameter.value) : parameter.name;
}

/// The declarations of a document's headers, as the table writes signatures.
class Declarations {
 public:
  explicit Declarations(const Document& document) : options_(document.options) {
    for (const std::string& header : document.headers) code_ += without_comments(text_of(header));
  }

  /// One for each overload, or that of a struct's fields.
  Texts signatures_of(const std::string& name) const {
    const std::vector<Parameters> overloads = overloads_of(code_, name);
    return overloads.empty() ? texts({fields_of(code_, name)}) : texts(overloads);
  }
  /// Those of its declarations on a page; what has no parameters may also be a call.
  Texts signatures_on(const std::string& page, const std::string& name) const {
    Texts signatures = texts(overloads_of(page, name));
    std::erase(signatures, "");
    return signatures;
  }

 private:
  Texts texts(std::vector<Parameters> overloads) const {
    for (Parameters& overload : overloads) overload = with_options(overload);
    Texts signatures;
    for (const Parameters& overload : overloads) signatures.push_back(text(overload, overloads));
    return signatures;
  }

  // With the fields of an option struct in its place.
  Parameters with_options(const Parameters& parameters) const {
    Parameters all;
    for (const Parameter& parameter : parameters) {
      const auto is_its_type = [&](const std::string& option) {
        return parameter.type == option || parameter.type == "const " + option + "&";
      };
      const auto option = std::ranges::find_if(options_, is_its_type);
      if (option == options_.end()) {
        all.push_back(parameter);
        continue;
      }
      const Parameters fields = fields_of(code_, *option);
      EXPECT_FALSE(fields.empty()) << "no struct " << *option << " in the headers";
      all.insert(all.end(), fields.begin(), fields.end());
    }
    return all;
  }

  // What a shorter overload leaves out has a default, which is that overload's business: "=…".
  static std::string text(const Parameters& parameters, const std::vector<Parameters>& overloads) {
    Texts texts;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool may_be_left_out = std::ranges::any_of(
          overloads, [&](const Parameters& other) { return other.size() <= i; });
      texts.push_back(text_of_one(parameters[i]));
      if (!parameters[i].value && may_be_left_out) texts.back() += "=…";
    }
    return join(texts, ", ");
  }

  std::string code_;
  Texts options_;
};

Texts split_at_commas(const std::string& text) {
  static const std::regex kComma(", ");
  if (text.empty()) return {};
  return {std::sregex_token_iterator(text.begin(), text.end(), kComma, -1), {}};
}

// Whether our signature is the document's, which may have parameters behind a lone star.
bool is_same(const std::string& ours, const std::string& documents) {
  Texts theirs = split_at_commas(documents);
  std::erase(theirs, "*");
  return std::ranges::equal(
      split_at_commas(ours), theirs, [](const std::string& a, const std::string& b) {
        const size_t open = a.find("=…");
        return a == b || (open != std::string::npos && b.starts_with(a.substr(0, open + 1)));
      });
}

// The rows of a page's tables of differences.
Texts difference_rows(const std::string& page) {
  Texts rows;
  bool inside = false;
  const std::string text = text_of(page);
  static const std::regex kLine("\n");
  for (auto line = std::sregex_token_iterator(text.begin(), text.end(), kLine, -1);
       line != std::sregex_token_iterator(); ++line) {
    if (*line == "| page | here | why |" || *line == "| peer | here | why |") inside = true;
    if (line->str().empty()) inside = false;
    if (inside) rows.push_back(*line);
  }
  return rows;
}

bool is_named(const Texts& rows, const std::string& name) {
  const std::regex code("`[^`]*\\b" + name + "\\b[^`]*`");
  return std::ranges::any_of(rows,
                             [&](const std::string& row) { return std::regex_search(row, code); });
}

bool contains(const Texts& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

void check(const Document& document) {
  const json table = json::parse(text_of("tests/golden/seed_signatures.json")).at(document.key);
  const Declarations declarations(document);
  const Texts rows = difference_rows(document.page);
  const std::string page = text_of(document.page);
  ASSERT_FALSE(table.empty());
  ASSERT_FALSE(rows.empty()) << document.page << " has no table of differences";
  for (const auto& [name, wanted] : table.items()) {
    const Texts ours = declarations.signatures_of(name);
    for (const std::string& shown : declarations.signatures_on(page, name)) {
      EXPECT_TRUE(contains(ours, shown)) << document.page << " shows " << name << "(" << shown
                                         << ")\n  here: " << join(ours, " | ");
    }
    const auto listed = std::ranges::find(document.differences, name, &Difference::name);
    const bool same = std::ranges::any_of(
        ours, [&, w = wanted.get<std::string>()](const auto& one) { return is_same(one, w); });
    if (listed == document.differences.end()) {
      EXPECT_TRUE(same) << name << "\n  here: " << join(ours, " | ") << "\n  document: " << wanted;
      continue;
    }
    EXPECT_FALSE(same) << name << " is listed as different, but is the document's";
    EXPECT_TRUE(contains(ours, listed->here))
        << name << "\n  here: " << join(ours, " | ") << "\n  listed: " << listed->here;
    EXPECT_TRUE(is_named(rows, name))
        << name << " is in no table of differences of " << document.page;
  }
  for (const Difference& one : document.differences) {
    EXPECT_TRUE(table.contains(one.name)) << one.name << " is not in the document";
  }
}

TEST(Signatures, OfMegatronsDocument) {
  check({.key = "megatron/parallel_state",
         .headers = {"src/tessera/dialect/megatron/functions.h",
                     "src/tessera/dialect/megatron/parallel_state.h",
                     "src/tessera/plan/megatron/plan.h", "src/tessera/topology/rank_generator.h"},
         .page = "docs/dialects/megatron.md",
         .differences = {{"create_group",
                          "ranks, timeout=None, backend=None, pg_options=None, "
                          "use_local_synchronization=False, group_desc=None"},
                         {"initialize_model_parallel",
                          "tensor_model_parallel_size=1, pipeline_model_parallel_size=1, "
                          "virtual_pipeline_model_parallel_size=None, "
                          "pipeline_model_parallel_comm_backend=None, use_sharp=False, "
                          "context_parallel_size=1, hierarchical_context_parallel_sizes=None, "
                          "expert_model_parallel_size=1, num_distributed_optimizer_instances=1, "
                          "expert_tensor_parallel_size=None, nccl_communicator_config_path=None, "
                          "distributed_timeout_minutes=30, order='tp-cp-ep-dp-pp', "
                          "get_embedding_ranks=None, get_position_embedding_ranks=None, "
                          "create_gloo_process_groups=True, high_priority_stream_groups=None, "
                          "sharp_enabled_group=None, hybrid_context_parallel=False, "
                          "create_all_gather_group=False"},
                         {"get_data_parallel_group",
                          "with_context_parallel=False, partial_data_parallel=False, "
                          "independent_all_gather=False"}},
         .options = {"MegatronConfig"}});
}

TEST(Signatures, OfOlmosDocumentOfMeshes) {
  check({.key = "olmo/parallel",
         .headers = {"src/tessera/dialect/olmo/parallel.h", "src/tessera/plan/olmo/config.h"},
         .page = "docs/dialects/olmo.md",
         .differences = {{"DataParallelConfig",
                          "name=DataParallelType::fsdp, param_dtype=None, reduce_dtype='float32', "
                          "num_replicas=None, shard_degree=None"},
                         {"TensorParallelConfig", "degree=1, enable_async=False"},
                         {"ExpertParallelConfig", "degree=1"},
                         {"PipelineParallelConfig",
                          "degree=1, schedule='Interleaved1F1B', style=None"},
                         {"get_replicate_and_shard_degree", "config, dp_world_size"},
                         {"step", "args, target=None, kwargs=None"}},
         .options = {"WorldMeshConfig"}});
}

TEST(Signatures, OfOlmosUtilities) {
  check({.key = "olmo/utils",
         .headers = {"src/tessera/dialect/olmo/utils.h"},
         .page = "docs/dialects/olmo.md",
         .differences =
             {{"init_distributed",
               "backend=None, timeout=1800 s, shared_filesytem=True, rank=None, world_size=None"},
              {"synchronize_value", "value, device=get_default_device(), src=0, group=None"},
              {"synchronize_flag", "flag, device=get_default_device(), group=None"},
              {"all_reduce_value", "value, device=get_default_device(), op=SUM, group=None"}},
         .options = {"InitArguments", "TurnOptions"}});
}

TEST(Signatures, OfOlmosTensors) {
  check({.key = "olmo/tensors",
         .headers = {"src/tessera/dialect/olmo/tensors.h", "src/tessera/tensor/dtensor.h",
                     "src/tessera/tensor/sharded_flat_tensor.h",
                     "src/tessera/tensor/sharding_spec.h"},
         .page = "docs/dialects/olmo.md"});
}

TEST(Signatures, OfNemosDocument) {
  check({.key = "nemo/mesh_utils",
         .headers = {"src/tessera/dialect/nemo/mesh_utils.h", "src/tessera/plan/nemo/plan.h"},
         .page = "docs/dialects/nemo.md",
         .differences = {{"create_device_mesh",
                          "distributed_config, dp_size=None, dp_replicate_size=None, tp_size=1, "
                          "pp_size=1, cp_size=1, ep_size=1, world_size=None, "
                          "moe_mesh=MoeMesh::kDocument, timeout_minutes=None, ranks=None"}},
         .options = {"ParallelismSizes", "MeshOptions"}});
}

TEST(Signatures, DeclarationsAreRead) {
  const std::string code = R"(
    struct Options {
      std::optional<int64_t> n = std::nullopt;
      std::map<int, std::string> names = {{1, "a, b"}};
      bool is_set() const { return n > 0; }
      int64_t size = 1;
      friend bool operator==(const Options&, const Options&) = default;
    };
    template <class T>
    std::vector<T> run(const T& value, const Options& options = {}) { return call(value, 2); }
    Group group();
    std::optional<Group> group(bool check);
    class Box { explicit Box(int size = 3) : base_(size) {} };
  )";
  const Parameters fields = fields_of(code, "Options");
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[1].name + " = " + *fields[1].value, R"(names = {{1, "a, b"}})");
  EXPECT_EQ(fields[2].name + " = " + *fields[2].value, "size = 1");
  const auto run = overloads_of(code, "run");
  ASSERT_EQ(run.size(), 1U);
  EXPECT_EQ(run[0][0].type + " " + run[0][0].name, "const T& value");
  EXPECT_EQ(run[0][1].value, "{}");
  EXPECT_TRUE(overloads_of(code, "call").empty()) << "a call declares nothing";
  EXPECT_TRUE(overloads_of(code, "base_").empty());
  EXPECT_EQ(overloads_of(code, "group").size(), 2U);
  EXPECT_EQ(overloads_of(code, "Box").at(0).at(0).value, "3");
}

TEST(Signatures, AreCompared) {
  EXPECT_TRUE(is_same("a, b=None", "a, *, b=None"));
  EXPECT_TRUE(is_same("", ""));
  EXPECT_FALSE(is_same("b=None, a", "a, b=None")) << "the order counts";
  EXPECT_FALSE(is_same("a, b=1", "a, b=None")) << "defaults count";
  EXPECT_FALSE(is_same("a", "a, b=None"));
  EXPECT_TRUE(is_same("check=…", "check=True"));
  EXPECT_FALSE(is_same("check=…", "check")) << "the document demands it";
}

}  // namespace
}  // namespace tessera::lint
