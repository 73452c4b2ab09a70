#include "tessera/format/checkpoint/save_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/format/checkpoint/checkpoint_index.h"

namespace tessera {
namespace {

// Smaller boxes are not worth a piece per rank.
constexpr int64_t kLeastToSplit = 64 << 10;

using BoxKey = std::pair<std::vector<int64_t>, std::vector<int64_t>>;  // Offset and shape.
using Ranks = std::vector<size_t>;

/// A tensor, and the ranks that hold each of its boxes.
struct Shared {
  DType dtype;
  std::vector<int64_t> shape;
  std::map<BoxKey, Ranks> holders = {};
};

using SharedTensors = std::map<std::string, Shared>;

void add(SharedTensors& all, const HeldTensor& held, size_t rank) {
  Shared& tensor = all.try_emplace(held.name, Shared{held.dtype, held.shape}).first->second;
  TSR_CHECK(tensor.dtype == held.dtype && tensor.shape == held.shape, "'", held.name, "' is ",
            to_string(held.dtype), " [", join(held.shape, ", "), "] on rank ", rank, " and ",
            to_string(tensor.dtype), " [", join(tensor.shape, ", "),
            "] on another; all ranks must give the full shape and the same dtype");
  for (const Box& box : held.boxes) {
    if (box.numel() == 0) continue;
    Ranks& ranks = tensor.holders[{box.offset, box.shape}];
    if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
  }
}

void check_tiles(const std::string& name, const Shared& tensor) {
  std::vector<Box> boxes;
  for (const auto& [key, ranks] : tensor.holders) boxes.push_back({key.second, key.first});
  const std::string problem = tiling_problem(tensor.shape, std::move(boxes));
  TSR_CHECK(problem.empty(), "the ranks' parts of '", name,
            "' do not make up the tensor: ", problem);
}

// Rank `index` of `count` takes some rows, along the first dimension that has several.
Box rows_of(Box box, int64_t count, int64_t index) {
  size_t dim = 0;
  while (dim + 1 < box.shape.size() && box.shape[dim] == 1) ++dim;
  const Span rows = tensor_split(box.shape[dim], count, index);
  box.offset[dim] += rows.begin;
  box.shape[dim] = rows.size();
  return box;
}

/// The plan while it is made.
struct Planning {
  std::vector<std::vector<PieceToSave>> pieces;
  std::vector<int64_t> bytes;  // Per rank.

  void give(size_t rank, PieceToSave piece) {
    bytes[rank] += piece.num_bytes();
    pieces[rank].push_back(std::move(piece));
  }

  void split(const PieceToSave& whole, const Ranks& holders) {
    const auto count = static_cast<int64_t>(holders.size());
    for (int64_t i = 0; i < count; ++i) {
      PieceToSave piece = whole;
      piece.box = rows_of(whole.box, count, i);
      if (piece.box.numel() > 0) give(holders[static_cast<size_t>(i)], std::move(piece));
    }
  }

  void give_to_least_busy(PieceToSave whole, const Ranks& holders) {
    const size_t rank = *std::ranges::min_element(holders, {}, [&](size_t r) { return bytes[r]; });
    give(rank, std::move(whole));
  }
};

}  // namespace

int64_t PieceToSave::num_bytes() const {
  return box.numel() * (bits_of(dtype) / 8);
}

std::vector<std::vector<PieceToSave>> plan_save(std::span<const std::vector<HeldTensor>> ranks) {
  SharedTensors all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const HeldTensor& held : ranks[rank]) add(all, held, rank);
  }
  Planning plan{.pieces = std::vector<std::vector<PieceToSave>>(ranks.size()),
                .bytes = std::vector<int64_t>(ranks.size(), 0)};
  std::vector<std::pair<PieceToSave, const Ranks*>> whole;  // By one of several ranks.
  for (const auto& [name, tensor] : all) {
    check_tiles(name, tensor);
    for (const auto& [key, holders] : tensor.holders) {
      PieceToSave piece{name, tensor.dtype, tensor.shape, Box{key.second, key.first}};
      if (holders.size() == 1) {
        plan.give(holders.front(), std::move(piece));
      } else if (piece.num_bytes() >= kLeastToSplit && !piece.box.shape.empty()) {
        plan.split(piece, holders);
      } else {
        whole.emplace_back(std::move(piece), &holders);
      }
    }
  }
  std::ranges::stable_sort(whole, std::ranges::greater{},
                           [](const auto& one) { return one.first.num_bytes(); });
  for (auto& [piece, holders] : whole) plan.give_to_least_busy(std::move(piece), *holders);
  return std::move(plan.pieces);
}

}  // namespace tessera
