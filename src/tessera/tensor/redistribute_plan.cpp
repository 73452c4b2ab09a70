#include "tessera/tensor/redistribute_plan.h"

#include <algorithm>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/reversed.h"
#include "tessera/topology/box.h"

namespace tessera {
namespace {

using Kind = RedistributeStep::Kind;
using Cuts = std::vector<AxisCut>;

struct DimCut {
  size_t dim = 0;
  int64_t split_factor = 1;
};

std::optional<DimCut> cut_of(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    return DimCut{static_cast<size_t>(shard->dim), 1};
  }
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return DimCut{static_cast<size_t>(strided->dim), strided->split_factor};
  }
  return std::nullopt;
}

// The dimension's cuts in the order of the placements, outer axes first.
Cuts listed_cuts(std::span<const Placement> placements, size_t dim) {
  Cuts cuts;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const auto cut = cut_of(placements[axis]);
    if (cut && cut->dim == dim) cuts.push_back({axis, cut->split_factor});
  }
  return cuts;
}

Runs runs_of(int64_t size, const Cuts& cuts, std::span<const int64_t> mesh_shape,
             std::span<const int64_t> coordinate) {
  Runs runs{{0, size}};
  for (const AxisCut& cut : cuts) {
    runs = cut_runs(runs, cut.split_factor, mesh_shape[cut.axis], coordinate[cut.axis]);
  }
  return runs;
}

// Moves to the next coordinate of the axes that cut; false after the last.
bool advance(std::vector<int64_t>& coordinate, const Cuts& cuts,
             std::span<const int64_t> mesh_shape) {
  for (const AxisCut& cut : cuts) {
    if (++coordinate[cut.axis] < mesh_shape[cut.axis]) return true;
    coordinate[cut.axis] = 0;
  }
  return false;
}

// Whether both orders give every rank the same elements: if all pieces are equal, and often
// otherwise.
bool equivalent(int64_t size, const Cuts& a, const Cuts& b, std::span<const int64_t> mesh_shape) {
  int64_t num_pieces = 1;
  for (const AxisCut& cut : a) num_pieces *= mesh_shape[cut.axis];
  if (size % num_pieces == 0) return true;
  std::vector<int64_t> coordinate(mesh_shape.size(), 0);
  do {
    if (runs_of(size, a, mesh_shape, coordinate) != runs_of(size, b, mesh_shape, coordinate))
      return false;
  } while (advance(coordinate, a, mesh_shape));
  return true;
}

// Moves each strided cut behind the inner axes whose sizes multiply to its factor; empty if a
// factor does not match.
std::optional<Cuts> reordered(const Cuts& listed, std::span<const int64_t> mesh_shape) {
  Cuts order;
  for (const AxisCut& cut : reversed(listed)) {
    size_t place = 0;
    int64_t passed = 1;
    while (passed < cut.split_factor && place < order.size()) {
      passed *= mesh_shape[order[place].axis];
      ++place;
    }
    if (passed != cut.split_factor) return std::nullopt;
    order.insert(order.begin() + static_cast<int64_t>(place), {cut.axis, 1});
  }
  return order;
}

// The dimension's cuts in the order in which they are made.
Cuts ordered_cuts(std::span<const Placement> placements, size_t dim, int64_t size,
                  std::span<const int64_t> mesh_shape) {
  Cuts listed = listed_cuts(placements, dim);
  const bool plain = std::ranges::all_of(listed, [](auto& cut) { return cut.split_factor == 1; });
  if (plain) return listed;
  const auto order = reordered(listed, mesh_shape);
  return order && equivalent(size, listed, *order, mesh_shape) ? *order : listed;
}

class Planner {
 public:
  Planner(std::span<const int64_t> shape, std::span<const int64_t> mesh_shape,
          std::span<const Placement> from, std::span<const Placement> to)
      : now_(from.begin(), from.end()), to_(to) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      cuts_.push_back(ordered_cuts(from, dim, shape[dim], mesh_shape));
      wanted_.push_back(ordered_cuts(to, dim, shape[dim], mesh_shape));
    }
    // A cut that stays may be written in another way in the target.
    for (size_t axis = 0; axis < now_.size(); ++axis) {
      pending_.push_back(now_[axis] != to_[axis] || must_be_undone(axis));
    }
  }

  std::vector<RedistributeStep> run() {
    while (step()) {
    }
    return std::move(steps_);
  }

 private:
  // The steps in the order of their cost; one of them is always possible until all is done.
  bool step() {
    return any(&Planner::cut) || any(&Planner::reduce_scatter) || any(&Planner::exchange) ||
           any(&Planner::reduce) || any(&Planner::gather_for_good) || any(&Planner::gather);
  }

  // Inner axes first: they made the last cuts.
  bool any(bool (Planner::*move)(size_t axis)) {
    for (size_t axis = now_.size(); axis-- > 0;) {
      if (pending_[axis] && (this->*move)(axis)) return true;
    }
    return false;
  }

  bool cut(size_t axis) {
    if (!std::holds_alternative<Replicate>(now_[axis]) || !may_gain(axis)) return false;
    gain(axis, {.kind = Kind::kCut, .axis = axis});
    return true;
  }

  bool reduce_scatter(size_t axis) {
    const auto* const partial = std::get_if<Partial>(&now_[axis]);
    if (partial == nullptr || !may_gain(axis)) return false;
    gain(axis, {.kind = Kind::kReduceScatter, .axis = axis, .op = partial->op});
    return true;
  }

  bool exchange(size_t axis) {
    const auto dim = last_cut_dim(axis);
    if (!dim || !may_gain(axis)) return false;
    RedistributeStep step{.kind = Kind::kExchange, .axis = axis};
    lose(*dim, step);
    gain(axis, std::move(step));
    return true;
  }

  bool reduce(size_t axis) {
    const auto* const partial = std::get_if<Partial>(&now_[axis]);
    if (partial == nullptr) return false;
    steps_.push_back({.kind = Kind::kReduce, .axis = axis, .op = partial->op});
    now_is(axis, Replicate{});
    return true;
  }

  bool gather_for_good(size_t axis) {
    return std::holds_alternative<Replicate>(to_[axis]) && gather(axis);
  }

  bool gather(size_t axis) {
    const auto dim = last_cut_dim(axis);
    if (!dim) return false;
    RedistributeStep step{.kind = Kind::kGather, .axis = axis};
    lose(*dim, step);
    steps_.push_back(std::move(step));
    now_is(axis, Replicate{});
    return true;
  }

  void now_is(size_t axis, const Placement& placement) {
    now_[axis] = placement;
    pending_[axis] = placement != to_[axis];
  }

  // How many of the dimension's cuts stay: the common prefix of both lists.
  size_t num_kept(size_t dim) const {
    return static_cast<size_t>(std::ranges::mismatch(cuts_[dim], wanted_[dim]).in1 -
                               cuts_[dim].begin());
  }

  bool must_be_undone(size_t axis) const {
    for (size_t dim = 0; dim < cuts_.size(); ++dim) {
      const Cuts& cuts = cuts_[dim];
      const auto found = std::ranges::find(cuts, axis, &AxisCut::axis);
      if (found != cuts.end()) return found - cuts.begin() >= static_cast<int64_t>(num_kept(dim));
    }
    return false;
  }

  // The dimension whose last cut is by this axis and must be undone; empty if there is none.
  std::optional<size_t> last_cut_dim(size_t axis) const {
    for (size_t dim = 0; dim < cuts_.size(); ++dim) {
      const bool last = !cuts_[dim].empty() && cuts_[dim].back().axis == axis;
      if (last && cuts_[dim].size() > num_kept(dim)) return dim;
    }
    return std::nullopt;
  }

  // Whether the dimension has all cuts that come before this axis's cut in the target.
  bool may_gain(size_t axis) const {
    const auto cut = cut_of(to_[axis]);
    if (!cut) return false;
    const Cuts& now = cuts_[cut->dim];
    const Cuts& wanted = wanted_[cut->dim];
    return now.size() < wanted.size() && num_kept(cut->dim) == now.size() &&
           wanted[now.size()].axis == axis;
  }

  void lose(size_t dim, RedistributeStep& step) {
    step.from_dim = dim;
    step.from_factor = cuts_[dim].back().split_factor;
    cuts_[dim].pop_back();
    step.outer = cuts_[dim];
  }

  // Makes the target's cut of the step's axis.
  void gain(size_t axis, RedistributeStep step) {
    step.to_dim = cut_of(to_[axis])->dim;
    Cuts& cuts = cuts_[step.to_dim];
    cuts.push_back(wanted_[step.to_dim][cuts.size()]);
    step.to_factor = cuts.back().split_factor;
    steps_.push_back(std::move(step));
    now_is(axis, to_[axis]);
  }

  Placements now_;
  std::span<const Placement> to_;
  std::vector<Cuts> cuts_;     // Per dimension, in the order in which they were made.
  std::vector<Cuts> wanted_;   // The same for the target.
  std::vector<bool> pending_;  // The axes that still need a step.
  std::vector<RedistributeStep> steps_;
};

void check_no_new_partial(std::span<const Placement> from, std::span<const Placement> to) {
  for (size_t axis = 0; axis < to.size(); ++axis) {
    TSR_CHECK(!std::holds_alternative<Partial>(to[axis]) || from[axis] == to[axis], "axis ", axis,
              " cannot go from ", to_string(from[axis]), " to ", to_string(to[axis]),
              ", because the terms of the ranks are unknown; make Partial tensors with from_local");
  }
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kCut:
      return "cut";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kExchange:
      return "all-to-all";
    case Kind::kReduce:
      return "all-reduce";
    case Kind::kGather:
      return "all-gather";
  }
  return "?";
}

}  // namespace

std::vector<RedistributeStep> redistribute_plan(std::span<const int64_t> shape,
                                                std::span<const int64_t> mesh_shape,
                                                std::span<const Placement> from,
                                                std::span<const Placement> to) {
  check_no_new_partial(from, to);
  std::vector<RedistributeStep> steps = Planner(shape, mesh_shape, from, to).run();
  std::erase_if(steps, [&](const auto& step) { return mesh_shape[step.axis] == 1; });
  return steps;
}

std::ostream& operator<<(std::ostream& out, const RedistributeStep& step) {
  const bool loses = step.kind == Kind::kGather || step.kind == Kind::kExchange;
  const bool gains = step.kind != Kind::kGather && step.kind != Kind::kReduce;
  out << "axis " << step.axis << ": " << name_of(step.kind);
  if (loses) out << " dim " << step.from_dim;
  if (gains) out << (loses ? " to" : "") << " dim " << step.to_dim;
  return out;
}

}  // namespace tessera
