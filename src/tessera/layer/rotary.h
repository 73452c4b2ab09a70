#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

struct LlamaConfig;

/// How fast each pair of a head's elements turns with the position, in radians; Llama 3's scaling
/// is in it.
std::vector<double> rotary_frequencies(const LlamaConfig& config);

/// The cosines and sines of one frequency list at consecutive positions, [positions, 1, pairs].
struct RotaryTable {
  at::Tensor cosines;
  at::Tensor sines;
};

/// Positions 0 … positions-1. Angles are taken in double and rounded once.
RotaryTable rotary_table(const std::vector<double>& frequencies, int64_t positions,
                         const at::TensorOptions& options);

/// Turns heads [batch, positions, heads, 2·pairs] by their positions; element i makes a pair with
/// element i + pairs, as in Hugging Face's weights.
at::Tensor rotate(const at::Tensor& heads, const RotaryTable& table);

}  // namespace tessera
