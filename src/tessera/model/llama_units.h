#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"
#include "tessera/layer/unit.h"

/// A Llama as a list of units: the embedding, blocks 0 to n-1, then final norm and head.
namespace tessera TSR_API {

class WeightFiles;

/// How the parameters of a Llama are built.
struct LlamaOptions {
  at::ScalarType dtype = at::kFloat;  // Of the parameters.
  at::Device device = at::kCPU;       // Of the parameters.
};

/// A range of the units, without memory for their parameters. They keep their names and indices. A
/// tied head lists the embedding's weight if the embedding's unit is not in the range.
std::vector<Unit> llama_units(const LlamaConfig& config, const LlamaOptions& options, Span units);
/// The number of units: embedding, layers and head.
int64_t num_llama_units(const LlamaConfig& config);

/// All units as a model with token_loss(). The caller sets `fill`.
Model llama_model(const LlamaConfig& config, const LlamaOptions& options = {});

/// Initializes parts of a Llama: normal values with initializer_range, ones in norms, zeros in
/// biases. Values only depend on seed, name and index, so they do not depend on the sharding.
void fill_llama(const Parameters& parameters, const LlamaConfig& config, uint64_t seed);
/// The same from files; only reads the bytes of the parts. DataError if a tensor is missing, has
/// another shape or no floating-point dtype, or does not belong to a Llama of this config.
void fill_llama(const Parameters& parameters, const LlamaConfig& config, const WeightFiles& files);

}  // namespace tessera
