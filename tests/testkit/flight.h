#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/format/flight_dump.h"

namespace tessera::testkit {

/// The dumps of a run, which a test builds operation by operation. Two ranks per host; one
/// millisecond between operations; the dumps are written 30 s after the last one.
class FlightRun {
 public:
  enum class End { kCompleted, kPending };
  using Tensors = std::vector<FlightTensor>;

  explicit FlightRun(int64_t world) {
    for (int64_t rank = 0; rank < world; ++rank) {
      dumps_.push_back({.rank = GlobalRank{rank},
                        .world_size = world,
                        .host = concat("node-", rank / 2),
                        .pid = 1000 + rank,
                        .job = "job-7",
                        .reason = "SIGUSR1"});
    }
  }

  void add_group(const std::string& desc, const std::vector<int64_t>& ranks) {
    for (const int64_t rank : ranks) {
      FlightDump& dump = dump_of(rank);
      dump.groups.push_back({.id = static_cast<int64_t>(dump.groups.size()),
                             .name = desc + "/compute",
                             .desc = desc,
                             .ranks = to_ranks(ranks)});
    }
  }

  /// A collective of the group with these ranks; each uses its next sequence number.
  void collective(const std::string& desc, const std::string& name, const std::vector<int64_t>& on,
                  const Tensors& inputs, const Tensors& outputs, End end = End::kCompleted) {
    now_ns_ += kStep;
    for (const int64_t rank : on) {
      FlightGroup& group = group_of(rank, desc);
      const FlightEntry entry{.group_id = group.id,
                              .collective_seq_id = ++group.last_enqueued,
                              .profiling_name = "gloo:" + name,
                              .inputs = inputs,
                              .outputs = outputs};
      group.last_started = group.last_enqueued;
      if (end == End::kCompleted) group.last_completed = group.last_enqueued;
      add(rank, entry, end);
    }
  }
  /// An in-place collective.
  void collective(const std::string& desc, const std::string& name, const std::vector<int64_t>& on,
                  const FlightTensor& tensor, End end = End::kCompleted) {
    collective(desc, name, on, {tensor}, {tensor}, end);
  }
  void barrier(const std::string& desc, const std::vector<int64_t>& on, End end = End::kCompleted) {
    collective(desc, "barrier", on, Tensors{}, Tensors{}, end);
  }

  /// One end of a message; `peer` is a global rank as well.
  void send(const std::string& desc, int64_t rank, int64_t peer, const FlightTensor& tensor,
            End end = End::kCompleted) {
    now_ns_ += kStep;
    const auto [from, to] = group_ranks(desc, rank, peer);
    add_message(rank, desc, concat("send ", from, "->", to), {tensor}, {}, end);
  }
  void recv(const std::string& desc, int64_t rank, int64_t peer, const FlightTensor& tensor,
            End end = End::kCompleted) {
    now_ns_ += kStep;
    const auto [to, from] = group_ranks(desc, rank, peer);
    add_message(rank, desc, concat("recv ", to, "<-", from), {}, {tensor}, end);
  }

  /// Drops the rank's oldest operations, like a full recorder.
  void keep_last(int64_t rank, size_t count) {
    std::vector<FlightEntry>& entries = dump_of(rank).entries;
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(count));
  }

  std::vector<FlightDump> dumps() const {
    std::vector<FlightDump> dumps = dumps_;
    for (FlightDump& dump : dumps) dump.created_ns = now_ns_ + 30 * kSecond;
    return dumps;
  }

 private:
  static constexpr int64_t kStep = 1'000'000;
  static constexpr int64_t kSecond = 1'000'000'000;

  FlightDump& dump_of(int64_t rank) { return dumps_[static_cast<size_t>(rank)]; }

  FlightGroup& group_of(int64_t rank, const std::string& desc) {
    return *std::ranges::find(dump_of(rank).groups, desc, &FlightGroup::desc);
  }

  std::pair<int64_t, int64_t> group_ranks(const std::string& desc, int64_t rank, int64_t peer) {
    const RankGroup& ranks = group_of(rank, desc).ranks;
    return {std::ranges::find(ranks, GlobalRank{rank}) - ranks.begin(),
            std::ranges::find(ranks, GlobalRank{peer}) - ranks.begin()};
  }

  void add_message(int64_t rank, const std::string& desc, const std::string& name, Tensors inputs,
                   Tensors outputs, End end) {
    const FlightGroup& group = group_of(rank, desc);
    add(rank,
        {.group_id = group.id,
         .collective_seq_id = group.last_enqueued,
         .p2p_seq_id = ++messages_[concat(rank, " ", desc, " ", name)],
         .profiling_name = "gloo:" + name,
         .inputs = std::move(inputs),
         .outputs = std::move(outputs),
         .is_p2p = true},
        end);
  }

  void add(int64_t rank, FlightEntry entry, End end) {
    FlightDump& dump = dump_of(rank);
    entry.record_id = dump.entries.empty() ? 0 : dump.entries.back().record_id + 1;
    entry.op_id = entry.record_id + 1;
    entry.timeout_ms = 60'000;
    entry.time_created_ns = now_ns_;
    entry.time_started_ns = now_ns_ + 1000;
    entry.state = FlightState::kStarted;
    if (end == End::kCompleted) {
      entry.state = FlightState::kCompleted;
      entry.retired = true;
      entry.time_completed_ns = now_ns_ + kStep / 2;
      entry.duration_ms = 0.5;
    }
    dump.entries.push_back(std::move(entry));
  }

  std::vector<FlightDump> dumps_;
  std::map<std::string, int64_t> messages_;
  int64_t now_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace tessera::testkit
