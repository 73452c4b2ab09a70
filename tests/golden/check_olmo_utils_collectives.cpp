// olmo_utils_collectives: OLMo-core's distributed.utils on three real ranks, and its uneven
// all_gather on two.
#include <ATen/ATen.h>

#include <iostream>
#include <map>

#include "tessera/base/check.h"
#include "tessera/dialect/olmo/utils.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"
#include "tests/testkit/spawn.h"

namespace tessera::golden {
namespace {

constexpr const char* kResult = "RESULT ";
constexpr const char* kUneven = "all_gather(uneven shapes 1+rank)";
const c10::Device kCpu(at::kCPU);

Json value(bool v) {
  return {{"value", v}, {"type", "bool"}};
}
Json value(int64_t v) {
  return {{"value", v}, {"type", "int"}};
}
Json value(double v) {
  return {{"value", v}, {"type", "float"}};
}
Json list(const Json& v) {
  return {{"value", v}, {"type", "list"}};
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

Json tensor(const at::Tensor& t) {
  return {{"tensor", numbers(t)}, {"dtype", "float32"}};
}

Json gathered(const std::vector<at::Tensor>& tensors) {
  Json all = Json::array();
  for (const at::Tensor& t : tensors) all.push_back(numbers(t));
  return list(all);
}

using Answers = std::map<std::string, Json>;

// In one order on every rank: each entry is a collective.
void answer_values(int64_t rank, Answers& out) {
  out["synchronize_flag(rank==0)"] = value(olmo::synchronize_flag(rank == 0, kCpu));
  out["synchronize_flag(rank!=0)"] = value(olmo::synchronize_flag(rank != 0, kCpu));
  out["synchronize_value(int 7+rank)"] = value(olmo::synchronize_value(7 + rank, kCpu));
  out["synchronize_value(int 7+rank, src=1)"] = value(olmo::synchronize_value(7 + rank, kCpu, 1));
  out["synchronize_value(float 0.1+rank)"] =
      value(olmo::synchronize_value(0.1 + static_cast<double>(rank), kCpu));
  out["synchronize_value(int 2**40+1)"] =
      value(olmo::synchronize_value((int64_t{1} << 40) + 1, kCpu));
  const at::Tensor input = at::arange(3, at::kFloat).add(10 * rank);
  const at::Tensor result = olmo::synchronize_value(input, kCpu);
  out["synchronize_value(tensor arange(3)+10*rank)"] = tensor(result);
  out["  input tensor afterwards"] = tensor(input);
  out["  result is input"] = value(result.is_same(input));
  out["all_reduce_value(int rank+1)"] = value(olmo::all_reduce_value(rank + 1, kCpu));
  out["all_reduce_value(int rank+1, MAX)"] =
      value(olmo::all_reduce_value(rank + 1, kCpu, ReduceOp::kMax));
  out["all_reduce_value(float 0.1)"] = value(olmo::all_reduce_value(0.1, kCpu));
  out["all_reduce_value(bool rank==1)"] = value(olmo::all_reduce_value(rank == 1, kCpu));
  out["all_reduce_value(bool rank==1, MAX)"] =
      value(olmo::all_reduce_value(rank == 1, kCpu, ReduceOp::kMax));
  const at::Tensor reduced = at::full({2}, rank + 1, at::kFloat);
  out["all_reduce_value(tensor)"] = tensor(olmo::all_reduce_value(reduced, kCpu));
  out["  reduced input tensor afterwards"] = tensor(reduced);
}

void answer_objects(int64_t rank, Answers& out) {
  const Json mine{{"rank", rank}};
  out["broadcast_object"] = {{"value", olmo::broadcast_object(mine)}, {"type", "dict"}};
  out["broadcast_object(src=2)"] = {{"value", olmo::broadcast_object(mine, 2)}, {"type", "dict"}};
  out["all_gather_object"] = list(olmo::all_gather_object(concat("r", rank)));
  out["all_gather(same shape)"] = gathered(olmo::all_gather(at::full({2}, rank, at::kFloat)));
  out["do_n_at_a_time(n=2) result"] =
      value(olmo::do_n_at_a_time([&] { return rank * 11; }, {.n = 2}));
}

void answer_subgroup(int64_t rank, Answers& out) {
  const Group sub = World::current()->group(to_ranks({1, 2}), {.name = "sub"});
  out["get_rank(sub [1,2])"] = value(olmo::get_rank(sub));
  out["get_world_size(sub [1,2])"] = value(olmo::get_world_size(sub));
  const auto member = [&](const std::string& name, const std::function<Json()>& body) {
    out[name] = sub.is_member() ? result_or_refusal(body) : Json();
  };
  member("sub synchronize_value(src=1)",
         [&] { return value(olmo::synchronize_value(rank + 5, kCpu, 1, sub)); });
  member("sub synchronize_value(src default 0)",
         [&] { return value(olmo::synchronize_value(rank, kCpu, 0, sub)); });
  member("sub broadcast_object(src=1)",
         [&] { return value(olmo::broadcast_object(rank, 1, sub)); });
  member("sub all_gather_object", [&] { return list(olmo::all_gather_object(rank, sub)); });
  member("sub get_global_rank",
         [&] { return list(Json{olmo::get_global_rank(0, sub), olmo::get_global_rank(1, sub)}); });
}

// What each rank answered, by the name of the question.
std::map<std::string, Json> run(int64_t world_size, const std::string& job) {
  std::map<std::string, Json> answers;
  for (const testkit::RankEnd& end : testkit::spawn_ranks(world_size, {"--as-rank", job})) {
    const size_t at = end.output.find(kResult);
    if (!end.succeeded() || at == std::string::npos)
      throw CommError("a rank failed: " + end.output);
    const Json result = Json::parse(end.output.substr(at + std::string(kResult).size()));
    for (const auto& [name, answer] : result.items()) answers[name].push_back(answer);
  }
  return answers;
}

const std::map<std::string, Json>& all_answers() {
  static const auto answers = [] {
    auto all = run(3, "collectives");
    all.merge(run(2, "uneven"));
    return all;
  }();
  return answers;
}

Json without_error_texts(Json per_rank) {
  for (Json& answer : per_rank) {
    if (answer.is_object() && answer.contains("error")) answer = refusal();
  }
  return per_rank;
}

// The peer's float32 answers, where ours is the double that they were rounded from.
bool is_rounding(const Json& expected, const Json& got) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].is_object() || expected[i].value("type", "") != "float" ||
        !got.at(i).is_object())
      return false;
    if (static_cast<double>(static_cast<float>(got[i].at("value").get<double>())) !=
        expected[i].at("value"))
      return false;
  }
  return true;
}

Outcome check(const Json& test_case) {
  const std::string name = test_case.at("id");
  const auto found = all_answers().find(name);
  if (found == all_answers().end()) return {"a question that is known", name};
  const Json expected = without_error_texts(test_case.at("expected"));
  const Json& got = found->second;
  if (name == kUneven) {
    const Json all = list(Json{{0.0}, {1.0, 1.0}});
    return {Json{all, all}, got, &rules::kUnevenGather};
  }
  if (expected != got && is_rounding(expected, got)) return {got, got, &rules::kDoublePrecision};
  return {expected, got};
}

}  // namespace

int answer_olmo_utils(const std::string& job) {
  olmo::init_distributed("gloo", std::chrono::seconds(60));
  const int64_t rank = olmo::get_rank();
  Answers answers;
  if (job == "uneven") {
    answers[kUneven] = gathered(olmo::all_gather(at::full({1 + rank}, rank, at::kFloat)));
  } else {
    answer_values(rank, answers);
    answer_objects(rank, answers);
    answer_subgroup(rank, answers);
  }
  olmo::shutdown_distributed();
  std::cout << kResult << Json(answers) << "\n";
  return 0;
}

Table olmo_utils_collectives_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const auto& [name, expected] : file.at("results").items()) {
      list.push_back({"results", {{"id", name}, {"expected", expected}}});
    }
    return list;
  };
  return {"olmo_utils_collectives", {{"results", check}}, cases};
}

}  // namespace tessera::golden
