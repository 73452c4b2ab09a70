#include "tessera/tensor/internal/redistribute_run.h"

#include <ATen/core/grad_mode.h>

#include <optional>

#include "tessera/comm/collectives.h"
#include "tessera/tensor/internal/pieces.h"

namespace tessera::tensor::detail {
namespace {

using Kind = RedistributeStep::Kind;

int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

// A tensor and its next step.
class RunState {
 public:
  explicit RunState(const RedistributeRun& run)
      : local(run.local),
        run_(run),
        mesh_shape_(run.mesh.shape()),
        coordinate_(*run.mesh.get_coordinate()) {}

  bool is_done() const { return next_ == run_.steps.size(); }
  const RedistributeStep& step() const { return run_.steps[next_]; }
  Group group() const { return run_.mesh.get_group(static_cast<int64_t>(step().axis)); }
  int64_t num_ranks() const { return mesh_shape_[step().axis]; }
  int64_t rank() const { return coordinate_[step().axis]; }

  // The pieces that the step joins, and the pieces that it makes.
  Pieces source_pieces() const {
    int64_t size = run_.shape[step().from_dim];
    for (const AxisCut& cut : step().outer) {
      size = total_size(
          cut_runs({{0, size}}, cut.split_factor, mesh_shape_[cut.axis], coordinate_[cut.axis]));
    }
    return {static_cast<int64_t>(step().from_dim), size, step().from_factor, num_ranks()};
  }
  Pieces target_pieces() const {
    const auto dim = static_cast<int64_t>(step().to_dim);
    return {dim, local.size(dim), step().to_factor, num_ranks()};
  }

  void finish_step(at::Tensor result) {
    local = std::move(result);
    ++next_;
  }

  at::Tensor local;

 private:
  const RedistributeRun& run_;
  std::vector<int64_t> mesh_shape_;
  Coordinate coordinate_;
  size_t next_ = 0;
};

using Batch = std::vector<RunState*>;

// A buffer of `numel` elements like the batch's tensors.
at::Tensor buffer_for(const Batch& batch, int64_t numel) {
  return batch[0]->local.new_empty({numel});
}

at::Tensor part(const at::Tensor& buffer, int64_t at, const std::vector<int64_t>& shape) {
  return buffer.narrow(0, at, numel_of(shape)).view(shape);
}

// Cuts need no communication.
void make_cuts(RunState& state) {
  while (!state.is_done() && state.step().kind == Kind::kCut) {
    state.finish_step(state.target_pieces().take(state.local, state.rank()));
  }
}

// One all-reduce of all tensors, concatenated.
void reduce(const Batch& batch, const Group& group) {
  int64_t numel = 0;
  for (const RunState* state : batch) numel += state->local.numel();
  const at::Tensor sums = buffer_for(batch, numel);
  std::vector<at::Tensor> results;
  int64_t at = 0;
  for (const RunState* state : batch) {
    results.push_back(part(sums, at, state->local.sizes().vec()));
    results.back().copy_(state->local);
    at += state->local.numel();
  }
  if (numel > 0) (void)all_reduce(sums, group, batch[0]->step().op).wait();
  for (size_t i = 0; i < batch.size(); ++i) batch[i]->finish_step(results[i]);
}

// One row per rank: its pieces of all tensors, each padded to the largest piece.
struct Rows {
  Rows(const Batch& batch, Pieces (RunState::*pieces_of)() const) {
    for (const RunState* state : batch) {
      pieces.push_back((state->*pieces_of)());
      slots.push_back(numel_of(pieces.back().shape_of(state->local.sizes(), 0)));
      size += slots.back();
    }
  }

  // Whether the only tensor of the batch, if contiguous, already has the layout of the rows.
  bool are_whole(const Batch& batch) const {
    return batch.size() == 1 && pieces[0].are_blocks_of(batch[0]->local.sizes());
  }

  std::vector<Pieces> pieces;
  std::vector<int64_t> slots;
  int64_t size = 0;
};

class ReduceScatter {
 public:
  explicit ReduceScatter(const Batch& batch)
      : batch_(batch), rows_(batch, &RunState::target_pieces) {}

  void run(const Group& group) {
    at::Tensor mine = buffer_for(batch_, 0);
    if (rows_.size > 0) {
      mine = reduce_scatter(outgoing(), group, batch_[0]->step().op).wait().view({-1});
    }
    int64_t at = 0;
    for (size_t i = 0; i < batch_.size(); ++i) {
      RunState& state = *batch_[i];
      const auto shape = rows_.pieces[i].shape_of(state.local.sizes(), state.rank());
      state.finish_step(part(mine, at, shape));
      at += rows_.slots[i];
    }
  }

 private:
  at::Tensor outgoing() const {
    const int64_t num_ranks = batch_[0]->num_ranks();
    if (rows_.are_whole(batch_)) return batch_[0]->local.contiguous().view({num_ranks, -1});
    at::Tensor rows =
        buffer_for(batch_, num_ranks * rows_.size).zero_();  // The padding is reduced as well.
    int64_t at = 0;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      for (size_t i = 0; i < batch_.size(); ++i) {
        const at::Tensor& local = batch_[i]->local;
        const auto shape = rows_.pieces[i].shape_of(local.sizes(), rank);
        rows_.pieces[i].copy_out(local, rank, part(rows, at, shape));
        at += rows_.slots[i];
      }
    }
    return rows.view({num_ranks, rows_.size});
  }

  const Batch& batch_;
  Rows rows_;
};

class Gather {
 public:
  explicit Gather(const Batch& batch) : batch_(batch), rows_(batch, &RunState::source_pieces) {}

  void run(const Group& group) {
    const at::Tensor all = all_gather(outgoing(), group).wait();
    int64_t at = 0;
    for (size_t i = 0; i < batch_.size(); ++i) {
      batch_[i]->finish_step(whole(i, all, at));
      at += rows_.slots[i];
    }
  }

 private:
  at::Tensor outgoing() const {
    if (batch_.size() == 1 && batch_[0]->local.numel() == rows_.size) {
      return batch_[0]->local.contiguous().view({-1});
    }
    at::Tensor row = buffer_for(batch_, rows_.size);
    int64_t at = 0;
    for (size_t i = 0; i < batch_.size(); ++i) {
      part(row, at, batch_[i]->local.sizes().vec()).copy_(batch_[i]->local);
      at += rows_.slots[i];
    }
    return row;
  }

  at::Tensor whole(size_t i, const at::Tensor& all, int64_t at) const {
    const at::Tensor& local = batch_[i]->local;
    const Pieces& pieces = rows_.pieces[i];
    const std::vector<int64_t> shape = pieces.whole_shape(local.sizes());
    if (rows_.are_whole(batch_)) return all.view(shape);
    at::Tensor whole = local.new_empty(shape);
    for (int64_t rank = 0; rank < batch_[i]->num_ranks(); ++rank) {
      const auto piece = pieces.shape_of(local.sizes(), rank);
      pieces.copy_in(whole, rank, part(all, rank * rows_.size + at, piece));
    }
    return whole;
  }

  const Batch& batch_;
  Rows rows_;
};

// Sends each rank its new pieces of all tensors, and receives the old pieces from each rank.
class Exchange {
 public:
  explicit Exchange(const Batch& batch) : batch_(batch) {
    for (const RunState* state : batch) {
      source_.push_back(state->source_pieces());
      target_.push_back(state->target_pieces());
    }
    for (int64_t rank = 0; rank < batch[0]->num_ranks(); ++rank) {
      send_.push_back(total(&Exchange::sent, rank));
      receive_.push_back(total(&Exchange::received, rank));
    }
  }

  void run(const Group& group) {
    const at::Tensor received = volume() > 0 ? all_to_all(outgoing(), send_, receive_, group).wait()
                                             : buffer_for(batch_, 0);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < batch_.size(); ++i) results.push_back(result_for(i, received));
    int64_t at = 0;
    for (int64_t rank = 0; rank < batch_[0]->num_ranks(); ++rank) {
      for (size_t i = 0; i < batch_.size(); ++i) {
        const Shape shape = this->received(i, rank);
        const at::Tensor piece = part(received, at, shape);
        if (!results[i].is_alias_of(received)) source_[i].copy_in(results[i], rank, piece);
        at += numel_of(shape);
      }
    }
    for (size_t i = 0; i < batch_.size(); ++i) batch_[i]->finish_step(results[i]);
  }

 private:
  using Shape = std::vector<int64_t>;

  Shape sent(size_t i, int64_t rank) const {
    return target_[i].shape_of(batch_[i]->local.sizes(), rank);
  }
  Shape received(size_t i, int64_t rank) const {
    return source_[i].shape_of(sent(i, batch_[i]->rank()), rank);
  }

  int64_t total(Shape (Exchange::*shape)(size_t, int64_t) const, int64_t rank) const {
    int64_t numel = 0;
    for (size_t i = 0; i < batch_.size(); ++i) numel += numel_of((this->*shape)(i, rank));
    return numel;
  }

  // The elements of all ranks: the same number on each, so that all ranks send or none does.
  int64_t volume() const {
    int64_t numel = 0;
    for (size_t i = 0; i < batch_.size(); ++i) {
      numel += numel_of(source_[i].whole_shape(batch_[i]->local.sizes()));
    }
    return numel;
  }

  // Avoids a copy if the received buffer already is the result.
  at::Tensor result_for(size_t i, const at::Tensor& received) const {
    const Shape shape = source_[i].whole_shape(sent(i, batch_[i]->rank()));
    const bool in_place = batch_.size() == 1 && source_[i].are_blocks_of(shape);
    return in_place ? received.view(shape) : received.new_empty(shape);
  }

  at::Tensor outgoing() const {
    const at::Tensor& first = batch_[0]->local;
    if (batch_.size() == 1 && target_[0].are_blocks_of(first.sizes())) {
      return first.contiguous().view({-1});
    }
    int64_t numel = 0;
    for (const RunState* state : batch_) numel += state->local.numel();
    at::Tensor buffer = buffer_for(batch_, numel);
    int64_t at = 0;
    for (int64_t rank = 0; rank < batch_[0]->num_ranks(); ++rank) {
      for (size_t i = 0; i < batch_.size(); ++i) {
        const Shape shape = sent(i, rank);
        target_[i].copy_out(batch_[i]->local, rank, part(buffer, at, shape));
        at += numel_of(shape);
      }
    }
    return buffer;
  }

  const Batch& batch_;
  std::vector<Pieces> source_;
  std::vector<Pieces> target_;
  Sizes send_;
  Sizes receive_;
};

bool can_batch(const RunState& a, const RunState& b) {
  return a.step().kind == b.step().kind && a.step().op == b.step().op &&
         a.local.scalar_type() == b.local.scalar_type() && a.local.device() == b.local.device() &&
         a.group() == b.group();
}

void run_batch(const Batch& batch) {
  const Group group = batch[0]->group();
  switch (batch[0]->step().kind) {
    case Kind::kCut:
      return;  // See make_cuts().
    case Kind::kReduceScatter:
      return ReduceScatter(batch).run(group);
    case Kind::kExchange:
      return Exchange(batch).run(group);
    case Kind::kReduce:
      return reduce(batch, group);
    case Kind::kGather:
      return Gather(batch).run(group);
  }
}

// The first tensor with a step left, and all that can be batched with it; the same on every rank.
Batch next_batch(std::vector<RunState>& states) {
  Batch batch;
  for (RunState& state : states) {
    if (state.is_done()) continue;
    if (batch.empty() || can_batch(*batch[0], state)) batch.push_back(&state);
  }
  return batch;
}

}  // namespace

std::vector<at::Tensor> run_steps(std::span<const RedistributeRun> runs) {
  const at::NoGradGuard no_grad;
  std::vector<RunState> states(runs.begin(), runs.end());
  for (;;) {
    for (RunState& state : states) make_cuts(state);
    const Batch batch = next_batch(states);
    if (batch.empty()) break;
    run_batch(batch);
  }
  std::vector<at::Tensor> results;
  for (RunState& state : states) results.push_back(std::move(state.local));
  return results;
}

}  // namespace tessera::tensor::detail
