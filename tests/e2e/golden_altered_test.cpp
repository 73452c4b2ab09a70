// golden_check checks formats, not the tables at hand: these altered at random must pass, and every
// single wrong value must be found. TESSERA_SEED draws others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/e2e/altered_tables.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera::golden {
namespace {

using testkit::Finished;

uint64_t seed() {
  const char* const given = std::getenv("TESSERA_SEED");
  return given == nullptr ? 1 : std::stoull(given);
}

class GoldenAltered : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const json table_ =
      json::parse(std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / (name_ + ".json")));

  Finished check(const json& content) {
    return testkit::run(
        TESSERA_GOLDEN_CHECK " " +
        folder_.file(name_ + ".altered.json", content.dump(static_cast<int>(seed() % 3))));
  }

  // The ids of cases that a rule decided, which the output lists.
  std::set<std::string> decided_by_rules(const std::string& out) const {
    std::set<std::string> ids;
    std::istringstream lines(out.substr(out.find("deviations: ")));
    const std::string before = "    " + name_ + " ";
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(before)) ids.insert(line.substr(before.size()));
    }
    return ids;
  }

 private:
  const testkit::TemporaryFolder folder_;
};

TEST_P(GoldenAltered, PassesAndFindsEveryWrongValue) {
  const json true_table = altered(name_, table_, seed());
  const Finished passing = check(true_table);
  EXPECT_EQ(passing.code, 0) << passing.out.substr(0, 20'000);
  const WrongTable wrong =
      with_wrong_values(name_, true_table, seed(), decided_by_rules(passing.out));
  ASSERT_GE(wrong.ids.size(), 5U);
  const Finished failing = check(wrong.content);
  EXPECT_EQ(failing.code, 1);
  for (const std::string& id : wrong.ids) {
    EXPECT_NE(failing.out.find(name_ + " " + id + ":"), std::string::npos)
        << id << " was changed, and passes";
  }
}

constexpr const char* kTables[] = {"context_balance",
                                   "rank_generator",
                                   "olmo_pipeline",
                                   "olmo_schedule",
                                   "pipeline",
#ifdef TESSERA_HAS_TEXT
                                   "tokenizer",
#endif
#ifdef TESSERA_HAS_TORCH
                                   "megatron_groups",
                                   "olmo_mesh",
                                   "nemo_mesh",
                                   "olmo_utils",
                                   "olmo_utils_collectives",
                                   "olmo_tensors",
                                   "olmo_flat_collectives",
                                   "dtensor",
                                   "olmo_step",
                                   "tensor_parallel"
#endif
};

INSTANTIATE_TEST_SUITE_P(Tables, GoldenAltered, testing::ValuesIn(kTables),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera::golden
