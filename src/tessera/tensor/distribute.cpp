#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/internal/check_alike.h"
#include "tessera/tensor/internal/pieces.h"

namespace tessera {

using namespace tensor::detail;

namespace {

std::optional<Pieces> pieces_of(const Placement& placement, const at::Tensor& local,
                                int64_t num_ranks) {
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    return Pieces(shard->dim, local.size(shard->dim), 1, num_ranks);
  }
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return Pieces(strided->dim, local.size(strided->dim), strided->split_factor, num_ranks);
  }
  return std::nullopt;
}

// The piece, padded to the size of the largest: scatter needs equal shapes.
at::Tensor padded_piece(const Pieces& pieces, const at::Tensor& whole, int64_t rank) {
  const at::Tensor padded = whole.new_zeros(pieces.shape_of(whole.sizes(), 0));
  pieces.copy_out(whole, rank, padded.narrow(pieces.dim(), 0, pieces.size_of(rank)));
  return padded;
}

at::Tensor scattered(const Pieces& pieces, const at::Tensor& local, GroupRank src,
                     const Group& group) {
  const at::Tensor mine = local.new_empty(pieces.shape_of(local.sizes(), 0));
  if (mine.numel() > 0) {
    std::vector<at::Tensor> all;
    for (int64_t rank = 0; group.rank() == src && rank < group.size(); ++rank) {
      all.push_back(padded_piece(pieces, local, rank));
    }
    (void)scatter(mine, all, src, group).wait();
  }
  return mine.narrow(pieces.dim(), 0, pieces.size_of(group.rank().value)).contiguous();
}

// One rank's term of a partial value; their reduction is exactly the value.
at::Tensor term(const at::Tensor& value, ReduceOp op, int64_t rank) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kBitXor:
      return rank == 0 ? value : value.new_zeros(value.sizes());
    case ReduceOp::kProduct:
      return rank == 0 ? value : value.new_ones(value.sizes());
    case ReduceOp::kAvg:
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      return value;
  }
  return value;
}

at::Tensor placed(const at::Tensor& local, const Placement& placement, const Group& group,
                  std::optional<GroupRank> src) {
  const int64_t rank = group.rank().value;
  const auto pieces = pieces_of(placement, local, group.size());
  if (pieces && src) return scattered(*pieces, local, *src, group);
  if (pieces) return pieces->take(local, rank);
  at::Tensor whole = local.clone();
  if (src) whole = broadcast(whole, *src, group).wait();
  const auto* const partial = std::get_if<Partial>(&placement);
  return partial == nullptr ? whole : term(whole, partial->op, rank);
}

void check_source(const DeviceMesh& mesh, std::optional<GroupRank> src) {
  for (const int64_t size : mesh.shape()) {
    TSR_CHECK(!src || (0 <= src->value && src->value < size), "src_data_rank ", src->value,
              " does not exist on every axis of ", mesh, "; choose 0 to ", size - 1);
  }
}

}  // namespace

DTensor distribute_tensor(const at::Tensor& tensor, const DeviceMesh& mesh,
                          const Placements& placements, const DistributeOptions& options) {
  check_member(mesh);
  const std::vector<Group> groups = mesh.get_all_groups();
  Placements normal;
  std::string given;
  const std::exception_ptr error = error_of([&] {
    TSR_CHECK(tensor.defined(), "distribute_tensor got an undefined tensor; pass a defined one");
    given = concat("a tensor (", join(tensor.sizes(), ","), ") of ", tensor.dtype(), " placed as ",
                   to_string(placements), " from ",
                   options.src_data_rank ? concat("rank ", options.src_data_rank->value) : "each");
    normal = checked_placements(placements, tensor.dim(), mesh.ndim());
    check_source(mesh, options.src_data_rank);
  });
  check_alike(groups, "distribute_tensor", given, error);
  at::Tensor local = tensor.detach();
  for (size_t axis = 0; axis < groups.size(); ++axis) {
    local = placed(local, normal[axis], groups[axis], options.src_data_rank);
  }
  return {local.requires_grad_(tensor.requires_grad()), mesh, std::move(normal),
          tensor.sizes().vec()};
}

}  // namespace tessera
