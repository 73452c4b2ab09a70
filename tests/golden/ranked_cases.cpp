#include "tests/golden/ranked_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "tessera/base/check.h"
#include "tests/testkit/spawn.h"

namespace tessera::golden {
namespace {

constexpr const char* kResult = "RESULT ";
constexpr const char* kCases = "TESSERA_GOLDEN_CASES";

// The cases, as a file for the ranks; gone at the end of the scope.
class CaseFile {
 public:
  explicit CaseFile(const Json& cases) {
    std::string name = (std::filesystem::temp_directory_path() / "golden-XXXXXX").string();
    TSR_CHECK(mkdtemp(name.data()) != nullptr, "cannot make a folder like ", name);
    folder_ = name;
    std::ofstream(path()) << cases;
  }
  ~CaseFile() { std::filesystem::remove_all(folder_); }
  CaseFile(const CaseFile&) = delete;
  CaseFile& operator=(const CaseFile&) = delete;

  std::string path() const { return folder_ / "cases.json"; }

 private:
  std::filesystem::path folder_;
};

void add_answers(const std::string& job, int64_t world_size, std::vector<Json*>& cases) {
  Json list = Json::array();
  for (const Json* test_case : cases) list.push_back(*test_case);
  const CaseFile file(list);
  for (const testkit::RankEnd& end :
       testkit::spawn_ranks(world_size, {"--as-rank", job}, {{kCases, file.path()}})) {
    const size_t at = end.output.find(kResult);
    if (!end.succeeded() || at == std::string::npos) {
      throw CommError("a rank failed: " + end.output);
    }
    const Json answers = Json::parse(end.output.substr(at + std::string(kResult).size()));
    for (size_t i = 0; i < cases.size(); ++i) (*cases[i])["answers"].push_back(answers.at(i));
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

int answer_as_rank(const RankAnswer& answer) {
  World world = World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
  Json answers = Json::array();
  for (const Json& test_case : Json::parse(std::ifstream(std::getenv(kCases)))) {
    answers.push_back(result_or_refusal([&] { return answer(test_case, world); }));
  }
  world.close();
  std::cout << kResult << answers << "\n";
  return 0;
}

}  // namespace tessera::golden
