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

struct LlamaOptions {
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
};

/// Some of the units, without memory for their parameters. They keep their names and numbers. A
/// tied head lists the embedding's weight if the embedding's unit is not among them.
std::vector<Unit> llama_units(const LlamaConfig& config, const LlamaOptions& options, Span units);
int64_t num_llama_units(const LlamaConfig& config);

/// The whole as a model with token_loss(). The caller sets `fill`.
Model llama_model(const LlamaConfig& config, const LlamaOptions& options = {});

/// Fills parts of a Llama: normal values with initializer_range, ones in norms, zeros in biases;
/// functions of seed, name and index alone, so that each part gets what the whole has there.
void fill_llama(const Parameters& parameters, const LlamaConfig& config, uint64_t seed);
/// The same from files, of which only the parts' bytes are read. DataError if a tensor is missing,
/// has another shape or no floating-point dtype, or belongs to no Llama of this config.
void fill_llama(const Parameters& parameters, const LlamaConfig& config, const WeightFiles& files);

}  // namespace tessera
