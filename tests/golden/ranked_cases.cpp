#include "tests/golden/ranked_cases.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "tessera/base/check.h"
#include "tests/testkit/spawn.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera::golden {
namespace {

constexpr const char* kResult = "RESULT ";
constexpr const char* kCases = "TESSERA_GOLDEN_CASES";

void add_answers(const std::string& job, int64_t world_size, std::vector<Json*>& cases) {
  Json list = Json::array();
  for (const Json* test_case : cases) list.push_back(*test_case);
  const testkit::TemporaryFolder folder;
  const std::string file = folder.file("cases.json", list.dump());
  for (const testkit::RankEnd& end :
       testkit::spawn_ranks(world_size, {"--as-rank", job}, {{kCases, file}})) {
    const size_t at = end.output.find(kResult);
    if (!end.succeeded() || at == std::string::npos) {
      throw CommError("a rank failed: " + end.output);
    }
    const Json answers = Json::parse(end.output.substr(at + std::string(kResult).size()));
    for (size_t i = 0; i < cases.size(); ++i) (*cases[i])["answers"].push_back(answers.at(i));
  }
}

// What one case does wrong must not keep the others from being answered; a rank that lost the
// others cannot go on.
Json answer_of(const RankAnswer& answer, const Json& test_case, World& world) {
  try {
    return result_or_refusal([&] { return answer(test_case, world); });
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    return concat("failed with: ", error.what());
  }
}

}  // namespace

std::vector<Json> with_answers(const std::string& job, std::vector<Json> cases,
                               const std::function<int64_t(const Json&)>& world_size) {
  std::map<int64_t, std::vector<Json*>> by_size;
  for (Json& test_case : cases) by_size[world_size(test_case)].push_back(&test_case);
  for (auto& [size, list] : by_size) add_answers(job, size, list);
  return cases;
}

std::string answers_of_rank(const RankAnswer& answer, World& world) {
  Json answers = Json::array();
  for (const Json& test_case : Json::parse(std::ifstream(std::getenv(kCases)))) {
    answers.push_back(answer_of(answer, test_case, world));
  }
  return concat(kResult, answers, "\n");
}

int answer_as_rank(const RankAnswer& answer) {
  World world = World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
  const std::string answers = answers_of_rank(answer, world);
  world.close();
  std::cout << answers;
  return 0;
}

}  // namespace tessera::golden
