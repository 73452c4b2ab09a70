#include "tessera/tensor/internal/journey.h"

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

// A tensor on its way.
class Traveller {
 public:
  explicit Traveller(const Journey& journey)
      : local(journey.local),
        journey_(journey),
        mesh_shape_(journey.mesh.shape()),
        coordinate_(*journey.mesh.get_coordinate()) {}

  bool arrived() const { return next_ == journey_.steps.size(); }
  const RedistributeStep& step() const { return journey_.steps[next_]; }
  Group group() const { return journey_.mesh.get_group(static_cast<int64_t>(step().axis)); }
  int64_t num_ranks() const { return mesh_shape_[step().axis]; }
  int64_t rank() const { return coordinate_[step().axis]; }

  // What the step makes whole, and what it cuts.
  Pieces given_up() const {
    int64_t size = journey_.shape[step().from_dim];
    for (const AxisCut& cut : step().outer) {
      size = total_size(
          cut_runs({{0, size}}, cut.split_factor, mesh_shape_[cut.axis], coordinate_[cut.axis]));
    }
    return {static_cast<int64_t>(step().from_dim), size, step().from_factor, num_ranks()};
  }
  Pieces gained() const {
    const auto dim = static_cast<int64_t>(step().to_dim);
    return {dim, local.size(dim), step().to_factor, num_ranks()};
  }

  void arrive(at::Tensor result) {
    local = std::move(result);
    ++next_;
  }

  at::Tensor local;

 private:
  const Journey& journey_;
  std::vector<int64_t> mesh_shape_;
  Coordinate coordinate_;
  size_t next_ = 0;
};

using Party = std::vector<Traveller*>;

// A buffer of `numel` elements like the party's tensors.
at::Tensor buffer_for(const Party& party, int64_t numel) {
  return party[0]->local.new_empty({numel});
}

at::Tensor part(const at::Tensor& buffer, int64_t at, const std::vector<int64_t>& shape) {
  return buffer.narrow(0, at, numel_of(shape)).view(shape);
}

// Cuts need nobody else.
void make_cuts(Traveller& traveller) {
  while (!traveller.arrived() && traveller.step().kind == Kind::kCut) {
    traveller.arrive(traveller.gained().take(traveller.local, traveller.rank()));
  }
}

// All tensors one after the other are one sum.
void reduce(const Party& party, const Group& group) {
  int64_t numel = 0;
  for (const Traveller* traveller : party) numel += traveller->local.numel();
  const at::Tensor sums = buffer_for(party, numel);
  std::vector<at::Tensor> results;
  int64_t at = 0;
  for (const Traveller* traveller : party) {
    results.push_back(part(sums, at, traveller->local.sizes().vec()));
    results.back().copy_(traveller->local);
    at += traveller->local.numel();
  }
  if (numel > 0) (void)all_reduce(sums, group, party[0]->step().op).wait();
  for (size_t i = 0; i < party.size(); ++i) party[i]->arrive(results[i]);
}

// For each rank a row: its pieces of all tensors, each in the room that the largest piece needs.
struct Rows {
  Rows(const Party& party, Pieces (Traveller::*pieces_of)() const) {
    for (const Traveller* traveller : party) {
      pieces.push_back((traveller->*pieces_of)());
      rooms.push_back(numel_of(pieces.back().shape_of(traveller->local.sizes(), 0)));
      size += rooms.back();
    }
  }

  // Whether a contiguous tensor that goes alone is its rows already.
  bool are_whole(const Party& party) const {
    return party.size() == 1 && pieces[0].are_blocks_of(party[0]->local.sizes());
  }

  std::vector<Pieces> pieces;
  std::vector<int64_t> rooms;
  int64_t size = 0;
};

class ReduceScatter {
 public:
  explicit ReduceScatter(const Party& party) : party_(party), rows_(party, &Traveller::gained) {}

  void run(const Group& group) {
    at::Tensor mine = buffer_for(party_, 0);
    if (rows_.size > 0) {
      mine = reduce_scatter(outgoing(), group, party_[0]->step().op).wait().view({-1});
    }
    int64_t at = 0;
    for (size_t i = 0; i < party_.size(); ++i) {
      Traveller& traveller = *party_[i];
      const auto shape = rows_.pieces[i].shape_of(traveller.local.sizes(), traveller.rank());
      traveller.arrive(part(mine, at, shape));
      at += rows_.rooms[i];
    }
  }

 private:
  at::Tensor outgoing() const {
    const int64_t num_ranks = party_[0]->num_ranks();
    if (rows_.are_whole(party_)) return party_[0]->local.contiguous().view({num_ranks, -1});
    at::Tensor rows =
        buffer_for(party_, num_ranks * rows_.size).zero_();  // Padding is summed, too.
    int64_t at = 0;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      for (size_t i = 0; i < party_.size(); ++i) {
        const at::Tensor& local = party_[i]->local;
        const auto shape = rows_.pieces[i].shape_of(local.sizes(), rank);
        rows_.pieces[i].copy_out(local, rank, part(rows, at, shape));
        at += rows_.rooms[i];
      }
    }
    return rows.view({num_ranks, rows_.size});
  }

  const Party& party_;
  Rows rows_;
};

class Gather {
 public:
  explicit Gather(const Party& party) : party_(party), rows_(party, &Traveller::given_up) {}

  void run(const Group& group) {
    const at::Tensor all = all_gather(outgoing(), group).wait();
    int64_t at = 0;
    for (size_t i = 0; i < party_.size(); ++i) {
      party_[i]->arrive(whole(i, all, at));
      at += rows_.rooms[i];
    }
  }

 private:
  at::Tensor outgoing() const {
    if (party_.size() == 1 && party_[0]->local.numel() == rows_.size) {
      return party_[0]->local.contiguous().view({-1});
    }
    at::Tensor row = buffer_for(party_, rows_.size);
    int64_t at = 0;
    for (size_t i = 0; i < party_.size(); ++i) {
      part(row, at, party_[i]->local.sizes().vec()).copy_(party_[i]->local);
      at += rows_.rooms[i];
    }
    return row;
  }

  at::Tensor whole(size_t i, const at::Tensor& all, int64_t at) const {
    const at::Tensor& local = party_[i]->local;
    const Pieces& pieces = rows_.pieces[i];
    const std::vector<int64_t> shape = pieces.whole_shape(local.sizes());
    if (rows_.are_whole(party_)) return all.view(shape);
    at::Tensor whole = local.new_empty(shape);
    for (int64_t rank = 0; rank < party_[i]->num_ranks(); ++rank) {
      const auto piece = pieces.shape_of(local.sizes(), rank);
      pieces.copy_in(whole, rank, part(all, rank * rows_.size + at, piece));
    }
    return whole;
  }

  const Party& party_;
  Rows rows_;
};

// To each rank its new pieces of all tensors; from each rank its old ones.
class Exchange {
 public:
  explicit Exchange(const Party& party) : party_(party) {
    for (const Traveller* traveller : party) {
      given_up_.push_back(traveller->given_up());
      gained_.push_back(traveller->gained());
    }
    for (int64_t rank = 0; rank < party[0]->num_ranks(); ++rank) {
      send_.push_back(total(&Exchange::sent, rank));
      receive_.push_back(total(&Exchange::received, rank));
    }
  }

  void run(const Group& group) {
    const at::Tensor received = volume() > 0 ? all_to_all(outgoing(), send_, receive_, group).wait()
                                             : buffer_for(party_, 0);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < party_.size(); ++i) results.push_back(room_for(i, received));
    int64_t at = 0;
    for (int64_t rank = 0; rank < party_[0]->num_ranks(); ++rank) {
      for (size_t i = 0; i < party_.size(); ++i) {
        const Shape shape = this->received(i, rank);
        const at::Tensor piece = part(received, at, shape);
        if (!results[i].is_alias_of(received)) given_up_[i].copy_in(results[i], rank, piece);
        at += numel_of(shape);
      }
    }
    for (size_t i = 0; i < party_.size(); ++i) party_[i]->arrive(results[i]);
  }

 private:
  using Shape = std::vector<int64_t>;

  Shape sent(size_t i, int64_t rank) const {
    return gained_[i].shape_of(party_[i]->local.sizes(), rank);
  }
  Shape received(size_t i, int64_t rank) const {
    return given_up_[i].shape_of(sent(i, party_[i]->rank()), rank);
  }

  int64_t total(Shape (Exchange::*shape)(size_t, int64_t) const, int64_t rank) const {
    int64_t numel = 0;
    for (size_t i = 0; i < party_.size(); ++i) numel += numel_of((this->*shape)(i, rank));
    return numel;
  }

  // What all ranks have together: the same on each, so that all send or none does.
  int64_t volume() const {
    int64_t numel = 0;
    for (size_t i = 0; i < party_.size(); ++i) {
      numel += numel_of(given_up_[i].whole_shape(party_[i]->local.sizes()));
    }
    return numel;
  }

  // Where what was received is the result already, there is no need to copy it.
  at::Tensor room_for(size_t i, const at::Tensor& received) const {
    const Shape shape = given_up_[i].whole_shape(sent(i, party_[i]->rank()));
    const bool in_place = party_.size() == 1 && given_up_[i].are_blocks_of(shape);
    return in_place ? received.view(shape) : received.new_empty(shape);
  }

  at::Tensor outgoing() const {
    const at::Tensor& first = party_[0]->local;
    if (party_.size() == 1 && gained_[0].are_blocks_of(first.sizes())) {
      return first.contiguous().view({-1});
    }
    int64_t numel = 0;
    for (const Traveller* traveller : party_) numel += traveller->local.numel();
    at::Tensor buffer = buffer_for(party_, numel);
    int64_t at = 0;
    for (int64_t rank = 0; rank < party_[0]->num_ranks(); ++rank) {
      for (size_t i = 0; i < party_.size(); ++i) {
        const Shape shape = sent(i, rank);
        gained_[i].copy_out(party_[i]->local, rank, part(buffer, at, shape));
        at += numel_of(shape);
      }
    }
    return buffer;
  }

  const Party& party_;
  std::vector<Pieces> given_up_;
  std::vector<Pieces> gained_;
  Sizes send_;
  Sizes receive_;
};

bool go_together(const Traveller& a, const Traveller& b) {
  return a.step().kind == b.step().kind && a.step().op == b.step().op &&
         a.local.scalar_type() == b.local.scalar_type() && a.local.device() == b.local.device() &&
         a.group() == b.group();
}

void go(const Party& party) {
  const Group group = party[0]->group();
  switch (party[0]->step().kind) {
    case Kind::kCut:
      return;  // Made before.
    case Kind::kReduceScatter:
      return ReduceScatter(party).run(group);
    case Kind::kExchange:
      return Exchange(party).run(group);
    case Kind::kReduce:
      return reduce(party, group);
    case Kind::kGather:
      return Gather(party).run(group);
  }
}

// The first that is still on its way, and all who go with it; the same on every rank.
Party next_party(std::vector<Traveller>& travellers) {
  Party party;
  for (Traveller& traveller : travellers) {
    if (traveller.arrived()) continue;
    if (party.empty() || go_together(*party[0], traveller)) party.push_back(&traveller);
  }
  return party;
}

}  // namespace

std::vector<at::Tensor> travel(std::span<const Journey> journeys) {
  const at::NoGradGuard no_grad;
  std::vector<Traveller> travellers(journeys.begin(), journeys.end());
  for (;;) {
    for (Traveller& traveller : travellers) make_cuts(traveller);
    const Party party = next_party(travellers);
    if (party.empty()) break;
    go(party);
  }
  std::vector<at::Tensor> results;
  for (Traveller& traveller : travellers) results.push_back(std::move(traveller.local));
  return results;
}

}  // namespace tessera::tensor::detail
