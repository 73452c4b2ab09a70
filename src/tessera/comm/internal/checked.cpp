#include "tessera/comm/internal/checked.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/objects.h"
#include "tessera/launch/worker.h"

namespace tessera::comm::detail {
namespace {

/// A call, in the form that ranks compare.
struct Fingerprint {
  std::string text;  // Must be equal: "all_reduce #17 (Float [4, 8], sum)".
  Sizes send;        // Must match the others' `receive`.
  Sizes receive;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fingerprint, text, send, receive)

std::string text_of(const at::Tensor& tensor) {
  return concat(c10::toString(tensor.scalar_type()), " [", join(tensor.sizes(), ", "), "]");
}

// Ranks may exchange different numbers of rows, but the rows must have the same shape.
std::string row_text_of(const at::Tensor& tensor) {
  return concat(c10::toString(tensor.scalar_type()), " rows of [",
                join(tensor.sizes().slice(1), ", "), "]");
}

Fingerprint fingerprint(const Call& call, uint64_t sequence) {
  const bool by_rows = call.receive != nullptr;
  std::vector<std::string> parts;
  for (const at::Tensor& input : call.inputs) {
    parts.push_back(by_rows ? row_text_of(input) : text_of(input));
  }
  if (call.op) parts.emplace_back(to_string(*call.op));
  if (call.root) parts.push_back(concat("root ", *call.root));
  if (call.dim) parts.push_back(concat("dim ", *call.dim));
  if (call.send != nullptr && !by_rows) {
    parts.push_back(concat("sizes ", join(*call.send, "+")));
  }
  Fingerprint print{.text = concat(call.name, " #", sequence), .send = {}, .receive = {}};
  if (!parts.empty()) print.text += concat(" (", join(parts, ", "), ")");
  if (by_rows) {
    print.send = *call.send;
    print.receive = *call.receive;
  }
  return print;
}

// "rank 2 called …". The call of most ranks comes first, as the expected one.
std::string who_called_what(const std::vector<Fingerprint>& prints, const Group& group) {
  std::vector<std::pair<std::string, RankGroup>> calls;
  for (size_t i = 0; i < prints.size(); ++i) {
    const auto same = std::ranges::find(calls, prints[i].text, &decltype(calls)::value_type::first);
    const GlobalRank rank = group.ranks()[i];
    if (same != calls.end()) {
      same->second.push_back(rank);
    } else {
      calls.push_back({prints[i].text, {rank}});
    }
  }
  if (calls.size() == 1) return "";
  std::ranges::stable_sort(calls, std::ranges::greater(),
                           [](const auto& one) { return one.second.size(); });
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : calls) {
    parts.push_back(
        concat(ranks.size() > 1 ? "ranks " : "rank ", join(ranks, ", "), " called ", text));
  }
  const bool expected = calls[0].second.size() > calls[1].second.size();
  return concat(parts[0], expected ? ", which is expected; but " : "; ",
                join(std::span(parts).subspan(1), "; "));
}

std::string rows_that_do_not_fit(const std::vector<Fingerprint>& prints, const Group& group) {
  for (size_t from = 0; from < prints.size(); ++from) {
    for (size_t to = 0; to < prints[from].send.size(); ++to) {
      const int64_t sent = prints[from].send[to];
      const int64_t wanted = prints[to].receive[from];
      if (sent == wanted) continue;
      return concat("all ranks called ", prints[from].text, ", but rank ", group.ranks()[from],
                    " sends ", sent, " rows to rank ", group.ranks()[to], ", which expects ",
                    wanted);
    }
  }
  return "";
}

}  // namespace

void compare_calls(const Call& call, const PendingOperation& operation) {
  operation.tell_recorder(&Recorder::waiting);
  const Group comparing(operation.group.state().comparing());
  const auto prints = all_gather_object(fingerprint(call, operation.sequence), comparing);
  std::string difference = who_called_what(prints, operation.group);
  if (difference.empty()) difference = rows_that_do_not_fit(prints, operation.group);
  if (difference.empty()) return;
  const std::string message =
      concat("the calls of the ranks of group ", operation.group.name(), " differ: ", difference);
  operation.communicator->poison(message);
  report_error(message);
  throw CommError(message);
}

void compare_ends(const Message& message, const PendingOperation& operation) {
  const Group& group = operation.group;
  const bool is_send = message.is_send();
  const GlobalRank self = group.global_rank(group.rank());
  const GlobalRank peer = group.global_rank(message.peer);
  const auto number = operation.communicator->next_compared(message.peer, message.tag, is_send);
  const std::string key = concat("message/", group.state().key(), "/", is_send ? self : peer, ">",
                                 is_send ? peer : self, "/", message.tag, "/", number);
  // The first end writes its text, the second compares.
  c10d::Store& store = *group.state().world().store;
  const std::string mine =
      concat("rank ", self, is_send ? " sends " : " expects ", text_of(message.tensor));
  const std::string theirs = store.compareSet(key, std::string(), mine);
  if (theirs == mine) return;
  store.deleteKey(key);
  if (theirs.ends_with(concat("s ", text_of(message.tensor)))) return;
  const std::string failure =
      concat("the ends of a message in group ", group.name(), " differ: ", is_send ? mine : theirs,
             ", but ", is_send ? theirs : mine);
  operation.communicator->poison(failure);
  report_error(failure);
  throw CommError(group.state().world().watchdog->publish(failure));
}

}  // namespace tessera::comm::detail
