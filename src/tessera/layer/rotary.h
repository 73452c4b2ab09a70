#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

struct LlamaConfig;

/// The angle per position of each pair of a head's elements, in radians; includes the scaling of
/// Llama 3.
std::vector<double> rotary_frequencies(const LlamaConfig& config);

/// The rotations of positions, [positions, 1, pairs], or per row [rows, positions, 1, pairs].
struct RotaryTable {
  at::Tensor cosines;  // Of the angle of each pair.
  at::Tensor sines;    // Of the same angles.
};

/// For positions 0 … positions-1. Angles are computed in double and rounded once.
RotaryTable rotary_table(const std::vector<double>& frequencies, int64_t positions,
                         const at::TensorOptions& options);

/// The entries of these positions, [rows or 1, positions] of int64 on any device, from a table of
/// consecutive ones, on its device.
RotaryTable rotary_table_at(const RotaryTable& table, const at::Tensor& positions);

/// Rotates heads [batch, positions, heads, 2·pairs] by their positions. Elements i and i + pairs
/// form a pair, as in Hugging Face's weights.
at::Tensor rotate(const at::Tensor& heads, const RotaryTable& table);

/// The heads of one layer, each [batch, positions, heads, size].
struct Heads {
  at::Tensor queries;  // May have more heads than the others.
  at::Tensor keys;     // As many heads as the values.
  at::Tensor values;   // Never rotated.
};

/// Rotates queries and keys. If `reuses`, the memory of the given ones may hold the result: nothing
/// else may read them. On a GPU the gradients lie beside each other in one tensor, as one product
/// for all three wants them.
Heads rotate(const Heads& heads, const RotaryTable& table, bool reuses);

}  // namespace tessera
