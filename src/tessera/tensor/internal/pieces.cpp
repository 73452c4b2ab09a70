#include "tessera/tensor/internal/pieces.h"

#include <algorithm>

namespace tessera::tensor::detail {
namespace {

std::vector<int64_t> with_size(at::IntArrayRef like, int64_t dim, int64_t size) {
  std::vector<int64_t> shape = like.vec();
  shape[static_cast<size_t>(dim)] = size;
  return shape;
}

// Visits the runs of a piece, with their offsets in the full tensor and in the piece.
template <class Body>
void for_each_run(const Runs& runs, const Body& body) {
  int64_t at = 0;
  for (const Span& run : runs) {
    body(run, at);
    at += run.size();
  }
}

}  // namespace

Pieces::Pieces(int64_t dim, int64_t size, int64_t split_factor, int64_t num_ranks)
    : dim_(dim), size_(size), even_(split_factor == 1 && size % num_ranks == 0) {
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    runs_.push_back(cut_runs({{0, size}}, split_factor, num_ranks, rank));
    sizes_.push_back(total_size(runs_.back()));
  }
}

bool Pieces::are_blocks_of(at::IntArrayRef shape) const {
  const auto before = shape.slice(0, static_cast<size_t>(dim_));
  return even_ && std::ranges::all_of(before, [](int64_t size) { return size == 1; });
}

std::vector<int64_t> Pieces::shape_of(at::IntArrayRef like, int64_t rank) const {
  return with_size(like, dim_, size_of(rank));
}

std::vector<int64_t> Pieces::whole_shape(at::IntArrayRef like) const {
  return with_size(like, dim_, size_);
}

at::Tensor Pieces::take(const at::Tensor& whole, int64_t rank) const {
  at::Tensor piece = whole.new_empty(shape_of(whole.sizes(), rank));
  copy_out(whole, rank, piece);
  return piece;
}

void Pieces::copy_out(const at::Tensor& whole, int64_t rank, const at::Tensor& piece) const {
  for_each_run(runs_[static_cast<size_t>(rank)], [&](const Span& run, int64_t at) {
    piece.narrow(dim_, at, run.size()).copy_(whole.narrow(dim_, run.begin, run.size()));
  });
}

void Pieces::copy_in(const at::Tensor& whole, int64_t rank, const at::Tensor& piece) const {
  for_each_run(runs_[static_cast<size_t>(rank)], [&](const Span& run, int64_t at) {
    whole.narrow(dim_, run.begin, run.size()).copy_(piece.narrow(dim_, at, run.size()));
  });
}

}  // namespace tessera::tensor::detail
