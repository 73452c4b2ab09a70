// olmo_utils_collectives: OLMo-core's distributed.utils on real ranks. A question is the text of a
// call: "synchronize_value(int 7+rank, src=1)", "sub all_gather_object" in a group of some ranks.
// What the text does not tell is written here.
#include <ATen/ATen.h>

#include <cmath>
#include <iostream>
#include <map>

#include "tessera/base/check.h"
#include "tessera/dialect/olmo/utils.h"
#include "tests/golden/dtypes.h"
#include "tests/golden/rank_expression.h"
#include "tests/golden/ranked_cases.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

const c10::Device kCpu(at::kCPU);

// ---- Answers in the table's form

Json value(const Json& v) {
  const char* const type = v.is_boolean()        ? "bool"
                           : v.is_number_float() ? "float"
                           : v.is_number()       ? "int"
                           : v.is_array()        ? "list"
                           : v.is_object()       ? "dict"
                                                 : "str";
  return {{"value", v}, {"type", type}};
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

Json described(const at::Tensor& t) {
  return {{"tensor", numbers(t)}, {"dtype", name_of(t.scalar_type())}};
}

Json gathered(const std::vector<at::Tensor>& tensors) {
  Json all = Json::array();
  for (const at::Tensor& t : tensors) all.push_back(numbers(t));
  return value(all);
}

// ---- Questions

std::string trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

struct Question {
  std::string name;       // "synchronize_value"
  std::string input;      // "int 7+rank"
  std::string reduction;  // "MAX"
  int64_t src = 0;        // Of "src=1" and "src default 0".
  int64_t n = 2;          // Of "n=2".
  bool in_sub_group = false;

  explicit Question(std::string text) {
    if (text.starts_with("sub ")) {
      in_sub_group = true;
      text = text.substr(4);
    }
    const size_t open = std::min(text.find('('), text.size());
    name = trimmed(text.substr(0, open));
    if (open == text.size()) return;
    const std::string arguments = text.substr(open + 1, text.rfind(')') - open - 1);
    // The list of a group's ranks has commas of its own.
    if (arguments.starts_with("sub ")) {
      in_sub_group = true;
      return;
    }
    for (const std::string_view argument : split(arguments, ',')) add(trimmed(argument));
  }

 private:
  void add(const std::string& argument) {
    const auto number_after = [&](std::string_view word) {
      return evaluate(argument.substr(word.size()), 0).get<int64_t>();
    };
    const bool is_word = !argument.empty() &&
                         std::ranges::all_of(argument, [](char c) { return 'A' <= c && c <= 'Z'; });
    if (argument.starts_with("src=")) {
      src = number_after("src=");
    } else if (argument.starts_with("src default ")) {
      src = number_after("src default ");
    } else if (argument.starts_with("n=")) {
      n = number_after("n=");
    } else if (is_word) {
      reduction = argument;
    } else {
      input = argument;
    }
  }
};

ReduceOp op_named(const std::string& name) {
  static const std::map<std::string, ReduceOp> kOps{
      {"", ReduceOp::kSum},    {"SUM", ReduceOp::kSum},
      {"AVG", ReduceOp::kAvg}, {"PRODUCT", ReduceOp::kProduct},
      {"MIN", ReduceOp::kMin}, {"MAX", ReduceOp::kMax}};
  return known(kOps, "reduction", name);
}

// The part behind a type word: "7+rank" of "int 7+rank".
std::string behind(const std::string& input, const std::string& word) {
  return input.starts_with(word) ? trimmed(input.substr(word.size())) : "";
}

// "tensor arange(3)+10*rank"; a tensor of which nothing is told is two elements of rank + 1.
at::Tensor tensor_of(const std::string& input, int64_t rank) {
  const std::string text = behind(input, "tensor");
  if (text.empty()) return at::full({2}, rank + 1, at::kFloat);
  const std::string size = behind(text, "arange(");
  if (size.empty()) throw UnknownName("tensor", text);
  const size_t close = size.find(')');
  const int64_t count = evaluate(size.substr(0, close), rank);
  return at::arange(count, at::kFloat)
      .add(evaluate("0" + size.substr(close + 1), rank).get<double>());
}

// The value of "int 7+rank" and its like; `otherwise` where nothing is told.
Json scalar_of(const std::string& input, int64_t rank, const Json& otherwise) {
  if (input.empty()) return otherwise;
  for (const char* type : {"int ", "float ", "bool "}) {
    const std::string text = behind(input, type);
    if (text.empty()) continue;
    const Json number = evaluate(text, rank);
    return std::string(type) == "float " ? Json(number.get<double>()) : number;
  }
  return evaluate(input, rank);
}

// ---- What a rank does

/// One rank's answers; the group is that of the questions that are asked in one.
class Answerer {
 public:
  Answerer(const Question& question, World& world, const RankGroup& sub_ranks)
      : question_(question), rank_(world.rank().value) {
    if (question.in_sub_group) group_ = world.group(sub_ranks, {.name = "sub"});
  }

  Json answer() {
    static const std::map<std::string, Json (Answerer::*)()> kFunctions{
        {"synchronize_flag", &Answerer::synchronize_flag},
        {"synchronize_value", &Answerer::synchronize_value},
        {"all_reduce_value", &Answerer::all_reduce_value},
        {"broadcast_object", &Answerer::broadcast_object},
        {"all_gather_object", &Answerer::all_gather_object},
        {"all_gather", &Answerer::all_gather},
        {"do_n_at_a_time", &Answerer::do_n_at_a_time},
        {"get_rank", &Answerer::get_rank},
        {"get_world_size", &Answerer::get_world_size},
        {"get_global_rank", &Answerer::get_global_ranks},
    };
    const auto function = known(kFunctions, "function", question_.name);
    const bool about_group = question_.name == "get_rank" || question_.name == "get_world_size";
    if (group_ && !group_->is_member() && !about_group) return nullptr;
    return (this->*function)();
  }

  /// "  input tensor afterwards", "  result is input": what came of the tensor that went in.
  Json afterwards(bool is_same) {
    const at::Tensor input = tensor_of(question_.input, rank_);
    const at::Tensor result =
        question_.name == "all_reduce_value"
            ? olmo::all_reduce_value(input, kCpu, op_named(question_.reduction), group_)
            : olmo::synchronize_value(input, kCpu, question_.src, group_);
    return is_same ? value(result.is_same(input)) : described(input);
  }

 private:
  bool has_tensor() const { return question_.input.starts_with("tensor"); }

  Json synchronize_flag() {
    const bool flag = scalar_of(question_.input, rank_, rank_ == 0);
    return value(olmo::synchronize_flag(flag, kCpu, group_));
  }

  Json synchronize_value() {
    if (has_tensor()) {
      return described(
          olmo::synchronize_value(tensor_of(question_.input, rank_), kCpu, question_.src, group_));
    }
    // What the table leaves out of its text.
    const Json given = scalar_of(question_.input, rank_, rank_ + 5);
    return with_type(
        given, [&](auto v) { return olmo::synchronize_value(v, kCpu, question_.src, group_); });
  }

  Json all_reduce_value() {
    const ReduceOp op = op_named(question_.reduction);
    if (has_tensor()) {
      return described(olmo::all_reduce_value(tensor_of(question_.input, rank_), kCpu, op, group_));
    }
    return with_type(scalar_of(question_.input, rank_, rank_ + 1),
                     [&](auto v) { return olmo::all_reduce_value(v, kCpu, op, group_); });
  }

  Json broadcast_object() {
    const Json mine = group_ ? Json(rank_) : Json{{"rank", rank_}};
    return value(olmo::broadcast_object(mine, question_.src, group_));
  }

  Json all_gather_object() {
    const Json mine = group_ ? Json(rank_) : Json(concat("r", rank_));
    return value(olmo::all_gather_object(mine, group_));
  }

  // "same shape" or "uneven shapes 1+rank".
  Json all_gather() {
    const std::string uneven = behind(question_.input, "uneven shapes ");
    const int64_t size = uneven.empty() ? 2 : evaluate(uneven, rank_).get<int64_t>();
    return gathered(olmo::all_gather(at::full({size}, rank_, at::kFloat), group_));
  }

  Json do_n_at_a_time() {
    return value(olmo::do_n_at_a_time([&] { return rank_ * 11; }, {.n = question_.n}));
  }

  Json get_rank() { return value(olmo::get_rank(group_)); }
  Json get_world_size() { return value(olmo::get_world_size(group_)); }
  Json get_global_ranks() {
    Json ranks = Json::array();
    const int64_t size = olmo::get_world_size(group_);
    for (int64_t rank = 0; rank < size; ++rank)
      ranks.push_back(olmo::get_global_rank(rank, group_));
    return value(ranks);
  }

  template <class Function>
  static Json with_type(const Json& given, const Function& function) {
    if (given.is_boolean()) return value(Json(function(given.get<bool>())));
    if (given.is_number_float()) return value(Json(function(given.get<double>())));
    return value(Json(function(given.get<int64_t>())));
  }

  const Question& question_;
  int64_t rank_;
  std::optional<Group> group_;
};

// The questions about the tensor of another one, by the beginning of that one.
const std::map<std::string, std::string>& follow_ups() {
  static const std::map<std::string, std::string> kFollowUps{
      {"input tensor afterwards", "synchronize_value(tensor"},
      {"result is input", "synchronize_value(tensor"},
      {"reduced input tensor afterwards", "all_reduce_value(tensor"}};
  return kFollowUps;
}

Json answer_question(const Json& test_case, World& world) {
  const std::string text = trimmed(test_case.at("id").get<std::string>());
  const RankGroup sub = to_ranks(test_case.at("sub_ranks").get<std::vector<int64_t>>());
  if (!follow_ups().contains(text)) {
    const Question question(text);
    return Answerer(question, world, sub).answer();
  }
  const Question question(test_case.at("about").get<std::string>());
  return Answerer(question, world, sub).afterwards(text == "result is input");
}

// ---- Comparison

// The peer's float32 answers, where ours is the double that they were rounded from.
bool is_rounding(const Json& expected, const Json& got) {
  constexpr double kRounding = 1e-6;
  for (size_t i = 0; i < expected.size(); ++i) {
    const Json& mine = got.at(i);
    if (expected[i] == mine) continue;
    if (!expected[i].is_object() || !mine.is_object()) return false;
    if (expected[i].value("type", "") != "float" || mine.value("type", "") != "float") return false;
    const double peers = expected[i].at("value");
    const bool is_float = static_cast<double>(static_cast<float>(peers)) == peers;
    const double difference = std::abs(peers - mine.at("value").get<double>());
    if (!is_float || difference > kRounding * std::abs(peers)) return false;
  }
  return true;
}

// Every rank's own tensor, whatever the shapes.
Json uneven_answer(const Question& question, size_t world) {
  const std::string shape = behind(question.input, "uneven shapes ");
  Json all = Json::array();
  for (size_t rank = 0; rank < world; ++rank) {
    const auto r = static_cast<int64_t>(rank);
    all.push_back(std::vector<double>(evaluate(shape, r).get<size_t>(), static_cast<double>(r)));
  }
  return Json(world, value(all));
}

Outcome check(const Json& test_case) {
  const Json expected = errors_as_refusals(test_case.at("expected"));
  const Json& got = test_case.at("answers");
  const Question question(trimmed(test_case.at("id").get<std::string>()));
  if (question.input.starts_with("uneven shapes ")) {
    return {uneven_answer(question, expected.size()), got, &rules::kUnevenGather};
  }
  if (expected != got && is_rounding(expected, got)) return {got, got, &rules::kDoublePrecision};
  return {expected, got};
}

// The ranks of the group that some questions are asked in, as "get_rank(sub [1,2])" names them.
Json sub_ranks(const Json& results) {
  for (const auto& [name, expected] : results.items()) {
    const size_t open = name.find("(sub [");
    if (open == name.npos) continue;
    return Json::parse(name.substr(open + 5, name.find(']') + 1 - open - 5));
  }
  return {1, 2};
}

std::string question_beginning(const Json& results, const std::string& beginning) {
  for (const auto& [name, expected] : results.items()) {
    if (name.starts_with(beginning)) return name;
  }
  throw UnknownName("question before a follow-up", beginning);
}

std::vector<Json> questions_of(const Json& results) {
  std::vector<Json> questions;
  for (const auto& [name, expected] : results.items()) {
    Json question{{"id", name}, {"expected", expected}, {"sub_ranks", sub_ranks(results)}};
    const auto follow_up = follow_ups().find(trimmed(name));
    if (follow_up != follow_ups().end()) {
      question["about"] = question_beginning(results, follow_up->second);
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

}  // namespace

int answer_olmo_utils() {
  olmo::init_distributed("gloo", std::chrono::seconds(60));
  const std::string answers = answers_of_rank(answer_question, *World::current());
  olmo::shutdown_distributed();
  std::cout << answers;
  return 0;
}

Table olmo_utils_collectives_table() {
  const auto cases = [](const Json& file) {
    const auto world_size = [](const Json& question) {
      return static_cast<int64_t>(question.at("expected").size());
    };
    std::vector<Case> list;
    for (Json& question :
         with_answers("olmo_utils_collectives", questions_of(file.at("results")), world_size)) {
      list.push_back({"results", std::move(question)});
    }
    return list;
  };
  return {"olmo_utils_collectives", {{"results", check}}, cases};
}

}  // namespace tessera::golden
