#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/action.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// The sizes of a schedule.
struct ScheduleShape {
  int64_t pp = 1;            // Ranks per pipeline.
  int64_t num_stages = 1;    // Over all ranks.
  int64_t microbatches = 1;  // Per step.

  friend bool operator==(const ScheduleShape&, const ScheduleShape&) = default;
};

/// When a send completes: when its receive has been posted (kRendezvous), or at once (kPosted). A
/// table with deferred receives may need kPosted.
enum class SendMode { kRendezvous, kPosted };

/// The actions of one rank, slot by slot.
using ScheduleRow = std::vector<Action>;

/// A pipeline table: the actions of each rank in order. The same value is generated, lowered,
/// verified, simulated, drawn and executed.
///
/// A stage lies on the rank that computes it. Every stage has one rank; every task is in its rank's
/// row and inside the shape. `verify` checks that the table is complete and free of deadlocks.
class Schedule {
 public:
  /// ConfigError with row and column (both from 0) of the first violation.
  Schedule(std::string name, ScheduleShape shape, std::vector<ScheduleRow> rows,
           SendMode sends = SendMode::kRendezvous);

  /// The kind, or the caller's name.
  const std::string& name() const& { return name_; }
  std::string name() && { return std::move(name_); }
  /// Ranks, stages and microbatches.
  const ScheduleShape& shape() const& { return shape_; }
  ScheduleShape shape() && { return shape_; }
  /// Ranks per pipeline.
  int64_t pp() const { return shape_.pp; }
  /// Over all ranks.
  int64_t num_stages() const { return shape_.num_stages; }
  /// Per step.
  int64_t microbatches() const { return shape_.microbatches; }
  /// When a send completes.
  SendMode sends() const { return sends_; }

  /// By rank.
  std::span<const ScheduleRow> rows() const& { return rows_; }
  std::vector<ScheduleRow> rows() && { return std::move(rows_); }
  /// The actions of one rank, which must be below pp().
  const ScheduleRow& row(GroupRank rank) const& { return rows_[static_cast<size_t>(rank.value)]; }
  ScheduleRow row(GroupRank rank) && { return row(rank); }

  /// The rank that computes the stage, which must be below num_stages().
  GroupRank rank_of(int64_t stage) const {
    return GroupRank{stage_to_rank_[static_cast<size_t>(stage)]};
  }
  /// The rank that computes each stage.
  std::span<const int32_t> stage_to_rank() const& { return stage_to_rank_; }
  std::vector<int32_t> stage_to_rank() && { return std::move(stage_to_rank_); }
  /// The stages of a rank, ascending.
  std::vector<int64_t> stages_of(GroupRank rank) const;

  /// Whether it holds only F, B, I, W, overlaps and idle slots: not lowered yet.
  bool is_compute_only() const { return compute_only_; }
  /// Whether it holds sends or receives; otherwise messages between ranks are implied.
  bool communicates() const { return communicates_; }

  /// The rows without idle slots, for comparison and for execution.
  Schedule without_idle() const;

  /// One line per rank, actions separated by blanks, "." for an idle slot.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
    return out << schedule.to_string();
  }
  friend bool operator==(const Schedule&, const Schedule&) = default;

 private:
  void check_shape() const;
  [[noreturn]] void refuse_outside(const Task& task, size_t row, size_t column) const;
  void check_everyone_computes() const;
  void place(const Task& task, size_t row, size_t column);

  std::string name_;
  ScheduleShape shape_;
  std::vector<ScheduleRow> rows_;
  SendMode sends_;
  std::vector<int32_t> stage_to_rank_;
  bool compute_only_ = true;
  bool communicates_ = false;
};

/// The smallest shape that holds all tasks of the rows, with one rank per row.
ScheduleShape shape_of(std::span<const ScheduleRow> rows);

}  // namespace tessera
