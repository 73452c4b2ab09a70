#include "tessera/schedule/action.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 14> kNames{
    "",       "F",      "B",       "I",       "W",           "SEND_F",      "RECV_F",
    "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B", "{}"};

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kOverlapName = "OVERLAP_F_B";

// The rule that a task breaks; "" if none.
std::string_view broken_rule(const Task& task) {
  if (task.type == ActionType::kOverlap || task.type == ActionType::kBatch) {
    return "an overlap or a batch has two tasks";
  }
  if (task.type == ActionType::kIdle) {
    return task.stage == -1 && task.microbatch == -1 ? "" : "an idle slot has no stage";
  }
  if (task.stage < 0) return "stages count from 0";
  if (!has_microbatch(task.type)) {
    return task.microbatch == -1 ? "" : "it concerns a whole stage and has no microbatch";
  }
  return task.microbatch < 0 ? "it needs a microbatch, counted from 0" : "";
}

std::string_view broken_rule_of_overlap(const Task& a, const Task& b) {
  const Task& forward = a.type == ActionType::kForward ? a : b;
  const Task& backward = a.type == ActionType::kForward ? b : a;
  if (forward.type != ActionType::kForward || backward.type != ActionType::kBackward) {
    return "an overlap is one forward (F) and one full backward (B)";
  }
  return a.stage == b.stage ? "the parts of an overlap must belong to different stages" : "";
}

std::string_view broken_rule_of_batch(const Task& a, const Task& b) {
  const bool pair =
      (is_send(a.type) && is_receive(b.type)) || (is_receive(a.type) && is_send(b.type));
  return pair ? "" : "a batch is one send and one receive";
}

std::string_view broken_rule(ActionType type, const Task& a, const Task& b) {
  for (const Task& task : {a, b}) {
    if (const std::string_view rule = broken_rule(task); !rule.empty()) return rule;
  }
  return type == ActionType::kOverlap ? broken_rule_of_overlap(a, b) : broken_rule_of_batch(a, b);
}

std::string pair_text(ActionType type, const Task& a, const Task& b) {
  return type == ActionType::kOverlap
             ? concat("(", to_string(a), ";", to_string(b), ")", kOverlapName)
             : concat("{", to_string(a), ",", to_string(b), "}");
}

// Text from a file for a message: shortened, and without control characters.
std::string shown(std::string_view text) {
  constexpr size_t kLongest = 40;
  std::string safe(text.substr(0, kLongest));
  std::ranges::replace_if(safe, [](char c) { return c < ' ' || c > '~'; }, '?');
  return concat("'", safe, text.size() > kLongest ? "…" : "", "'");
}

[[noreturn]] void refuse(std::string_view text, std::string_view rule) {
  throw DataError(concat(shown(text), " is not an action: ", rule));
}

// Without surrounding white space: the ASCII part of what Python's str.strip() removes.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhiteSpace = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

ActionType type_named(std::string_view name, std::string_view text) {
  const auto begin = kNames.begin() + 1;  // Without idle
  const auto end = kNames.end() - 2;      // and the types of two tasks.
  const auto found = std::find(begin, end, name);
  if (found != end) return static_cast<ActionType>(found - kNames.begin());
  const std::vector<std::string> known(begin, end);
  // Every letter is near every other, so single letters get no hint.
  const std::string hint = name.size() > 1 ? did_you_mean(name, known) : "";
  refuse(text, concat("no type is called ", shown(name), hint, " (types: ", join(known, " "), ")"));
}

// "" is -1, which broken_rule checks; refuses anything but a number that fits.
int32_t number(std::string_view digits, std::string_view what, std::string_view text) {
  if (digits.empty()) return -1;
  const auto value = to_integer(digits);
  if (!value || *value > std::numeric_limits<int32_t>::max()) {
    refuse(text, concat("its ", what, " ", shown(digits), " is not a whole number below 2^31"));
  }
  return static_cast<int32_t>(*value);
}

// Stage, type, microbatch: the type is the text between the numbers.
Task parse_task(std::string_view text) {
  const size_t type_begin = std::min(text.find_first_not_of(kDigits), text.size());
  const size_t type_end = std::min(text.find_first_of(kDigits, type_begin), text.size());
  if (type_begin == 0) refuse(text, "it must start with the number of its stage, e.g. 3SEND_F1");
  const ActionType type = type_named(text.substr(type_begin, type_end - type_begin), text);
  const Task task{.type = type,
                  .stage = number(text.substr(0, type_begin), "stage", text),
                  .microbatch = number(text.substr(type_end), "microbatch", text)};
  if (const std::string_view rule = broken_rule(task); !rule.empty()) refuse(text, rule);
  return task;
}

struct Pair {
  Task first;
  Task second;
};

// Drops white space around the parts and empty parts, as PyTorch does.
Pair parse_pair(ActionType type, std::string_view inner, char separator, std::string_view text) {
  std::vector<std::string_view> parts = split(inner, separator);
  std::ranges::transform(parts, parts.begin(), trimmed);
  std::erase(parts, "");
  if (parts.size() != 2)
    refuse(text, concat("it must have two parts, separated by '", separator, "'"));
  const Pair pair{parse_task(parts[0]), parse_task(parts[1])};
  const std::string_view rule = broken_rule(type, pair.first, pair.second);
  if (!rule.empty()) refuse(text, rule);
  return pair;
}

Action parse_overlap(std::string_view text) {
  const size_t close = text.find(')');
  if (close == std::string_view::npos || text.substr(close + 1) != kOverlapName) {
    refuse(text, "an overlap is written (0F3;3B1)OVERLAP_F_B");
  }
  const Pair pair = parse_pair(ActionType::kOverlap, text.substr(1, close - 1), ';', text);
  return Action::overlap(pair.first, pair.second);
}

Action parse_batch(std::string_view text) {
  if (text.back() != '}') refuse(text, "a batch is written {0SEND_F3,0RECV_B0}");
  const Pair pair = parse_pair(ActionType::kBatch, text.substr(1, text.size() - 2), ',', text);
  return Action::batch(pair.first, pair.second);
}

}  // namespace

std::string_view to_string(ActionType type) {
  return kNames.at(static_cast<size_t>(type));
}

std::string to_string(const Task& task) {
  if (task.type == ActionType::kIdle) return "";
  std::string text = std::to_string(task.stage);
  text += to_string(task.type);
  if (task.microbatch >= 0) text += std::to_string(task.microbatch);
  return text;
}

void Action::refuse(const Task& task) {
  throw ConfigError(
      concat("'", tessera::to_string(task), "' is not an action: ", broken_rule(task)));
}

Action::Action(ActionType type, Task first, Task second)
    : type_(type), num_tasks_(2), tasks_{first, second} {
  const std::string_view rule = broken_rule(type, first, second);
  TSR_CHECK(rule.empty(), "'", pair_text(type, first, second), "' is not an action: ", rule);
}

Action Action::overlap(Task first, Task second) {
  return {ActionType::kOverlap, first, second};
}

Action Action::batch(Task first, Task second) {
  return {ActionType::kBatch, first, second};
}

std::string to_string(const Action& action) {
  const auto tasks = action.tasks();
  if (tasks.size() < 2) return tasks.empty() ? "" : to_string(tasks[0]);
  return pair_text(action.type(), tasks[0], tasks[1]);
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  return out << to_string(action);
}

Action parse_action(std::string_view text) {
  const std::string_view inner = trimmed(text);
  if (inner.empty()) return {};
  if (inner[0] == '(') return parse_overlap(inner);
  if (inner[0] == '{') return parse_batch(inner);
  return Action(parse_task(inner));
}

}  // namespace tessera
