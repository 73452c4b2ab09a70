#include "tests/golden/rules.h"

#include <algorithm>
#include <limits>
#include <regex>
#include <set>

namespace tessera::golden::rules {
namespace {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

bool overlap(const Json& offsets) {
  std::vector<Range> ranges;
  for (const Json& of_rank : offsets) {
    for (const Json& span : of_rank) {
      if (span.at(0) < span.at(1)) ranges.push_back({span.at(0), span.at(1)});
    }
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  const auto meet = [](const Range& a, const Range& b) { return b.begin < a.end; };
  return std::ranges::adjacent_find(ranges, meet) != ranges.end();
}

// ---- Actions, read without the library

const std::string kBlank = R"([ \t\n\v\f\r\x1c-\x1f]*)";
const std::string kTypes =
    "(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD|OVERLAP_F_B)";

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

struct TaskText {
  std::string stage;
  std::string type;
  std::string microbatch;
};

std::vector<TaskText> tasks_in(const std::string& text) {
  static const std::regex kTask("([0-9]+)" + kTypes + "([0-9]*)");
  std::vector<TaskText> tasks;
  const std::sregex_iterator end;
  for (std::sregex_iterator task(text.begin(), text.end(), kTask); task != end; ++task) {
    tasks.push_back({(*task)[1], (*task)[2], (*task)[3]});
  }
  return tasks;
}

bool is_whole(const std::string& text) {
  static const std::string kTask = "[0-9]+" + kTypes + "[0-9]*";
  static const std::string kPart = kBlank + "(" + kTask + ")?" + kBlank;
  static const std::regex kWhole(kBlank + "(" + kTask + ")?" + kBlank + "|" + kBlank + R"(\()" +
                                 kPart + "(;" + kPart + R"()*\))" + kTypes + kBlank);
  return std::regex_match(text, kWhole);
}

bool is_large(const std::string& digits) {
  if (digits.empty()) return false;
  const auto number = to_integer(digits);
  return !number || *number > std::numeric_limits<int32_t>::max();
}

// An action on a stage has no microbatch, every other one has.
bool is_half(const TaskText& task) {
  static const std::set<std::string> kOnStages{"UNSHARD", "RESHARD", "REDUCE_GRAD"};
  return kOnStages.contains(task.type) != task.microbatch.empty();
}

// An overlap has one F and one B of different stages; the peer takes any parts, and none.
bool is_overlap(const std::string& text, const std::vector<TaskText>& parts) {
  if (!matches(text, "[^)]*\\)OVERLAP_F_B" + kBlank) || parts.size() != 2) return false;
  const std::set<std::string> types{parts[0].type, parts[1].type};
  return types == std::set<std::string>{"F", "B"} &&
         to_integer(parts[0].stage) != to_integer(parts[1].stage);
}

}  // namespace

const Rule* of_size(const Json& size) {
  if (size.is_array()) {
    return std::ranges::any_of(size, [](const Json& one) { return of_size(one) != nullptr; })
               ? &kSizeBelowOne
               : nullptr;
  }
  return size.is_number() && size < 1 ? &kSizeBelowOne : nullptr;
}

const Rule* of_order(const std::string& order) {
  const std::string lower = to_lower(order);
  const auto entries = split(lower, '-');
  const std::set<std::string_view> different(entries.begin(), entries.end());
  return different.size() == entries.size() ? nullptr : &kRepeatedOrderEntry;
}

const Rule* of_rank_list(const Json& ranks, int64_t world) {
  std::set<int64_t> seen;
  for (const int64_t rank : ranks) {
    if (rank < 0 || rank >= world) return &kRankOutsideTheWorld;
    if (!seen.insert(rank).second) return &kRepeatedRank;
  }
  return nullptr;
}

const Rule* of_spans(const Json& offsets, int64_t num_ranks) {
  if (offsets.is_null()) return nullptr;
  if (overlap(offsets)) return &kOverlappingSpans;
  return static_cast<int64_t>(offsets.size()) == num_ranks ? nullptr : &kSpecForOtherRanks;
}

const Rule* of_action(const std::string& text) {
  if (std::ranges::any_of(text, [](char c) { return c < 0; })) return &kNotAscii;
  if (!is_whole(text)) return &kTextBehindAction;
  const std::vector<TaskText> tasks = tasks_in(text);
  const auto large = [](const TaskText& t) { return is_large(t.stage) || is_large(t.microbatch); };
  if (std::ranges::any_of(tasks, large)) return &kLargeNumber;
  if (std::ranges::any_of(tasks, is_half)) return &kHalfAction;
  const bool has_parts = text.find('(') != std::string::npos;
  return !has_parts || is_overlap(text, tasks) ? nullptr : &kHalfAction;
}

const Rule* of_added_tokens(const Json& tokenizer) {
  const Json& vocabulary = tokenizer.at("model").at("vocab");
  auto next = static_cast<int64_t>(vocabulary.size());
  for (const Json& token : value_or(tokenizer, "added_tokens", Json::array())) {
    const std::string content = token.at("content");
    const int64_t id = vocabulary.contains(content) ? vocabulary.at(content).get<int64_t>() : next;
    if (token.at("id") != id) return &kAddedTokenId;
    next = std::max(next, id + 1);
  }
  return nullptr;
}

}  // namespace tessera::golden::rules
