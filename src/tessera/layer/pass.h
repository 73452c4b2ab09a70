#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/layer/documents.h"
#include "tessera/layer/fp8.h"
#include "tessera/layer/kept_results.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

/// How the layers of parallel/tensor/ split their work over the ranks of a group.
struct TensorParallel {
  Group group;  // Its ranks hold different shards of each weight matrix.
  /// Sequence parallelism: outside of these layers each rank holds its share of the positions, and
  /// all-gathers and reduce-scatters replace the all-reduces.
  bool sequence = true;
  /// Cuts products into pieces that overlap with their communication. Only with `sequence`.
  bool async = false;
};

struct Pass;

/// Attention over the ranks that split a sequence; ContextParallel implements it.
class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  /// **Collective.** window_attention() of whole sequences, from this rank's tokens.
  virtual at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, int64_t window, const Pass& pass) const = 0;
  /// The number of ranks that split a sequence.
  virtual int64_t ranks() const = 0;
};

class RouterBalance;
class RouterCapacity;

/// How tokens reach the ranks of their experts.
enum class Dispatch {
  kAllToAll,   // Each rank sends the rows of each expert to its rank.
  kAllGather,  // All ranks gather all tokens: fewer bytes if tokens visit more experts than ranks.
};

/// How the layers of parallel/expert/ split their work over ranks.
struct ExpertParallel {
  Group ep;   // Its ranks hold different experts.
  Group etp;  // Its ranks hold different parts of the same experts.
  /// Data parallelism multiplies the gradients of experts by the same factor on all ranks, though
  /// they come from ranks with different shares of the batch. This rank multiplies the gradients
  /// that it sends to experts by this, and divides those that come back.
  double row_scale = 1;
  Dispatch dispatch = Dispatch::kAllToAll;  // The same on all ranks of ep and etp.
};

/// Arguments of a forward pass, in addition to its input.
struct Pass {
  /// Where layers put their weight gradients; null if the backward pass computes them itself.
  const WeightGradients* deferred = nullptr;
  /// Whether layers add weight gradients to existing ones by the product itself, if none is
  /// deferred: for several micro-batches. Only for backward(); autograd::grad() would miss them.
  bool adds_gradients = false;
  /// Where expensive layers keep their results for a second run; null if they keep none.
  KeptResults* kept = nullptr;
  /// How linear layers round the operands of their products.
  Fp8 fp8 = Fp8::kNone;
  /// Null if no layer is split over ranks, like a group of one. It must live until the end of the
  /// backward pass.
  const TensorParallel* tensor = nullptr;
  /// Null if this rank has whole sequences. It must live until the end of the backward pass.
  const ContextAttention* context = nullptr;
  /// The position of each token of this rank in its document, [rows or 1, tokens] of int64;
  /// undefined: 0, 1, 2, … If they are on a GPU, layers wait for it to learn the largest.
  at::Tensor positions = {};
  /// The documents of the whole sequences; null if each row is one document.
  std::shared_ptr<const PackedRows> documents = nullptr;
  /// Null if every rank holds all experts. It must live until the end of the backward pass.
  const ExpertParallel* experts = nullptr;
  /// Where routers count tokens per expert, and get the gradients of their losses; null: nowhere.
  RouterBalance* balance = nullptr;
  /// Where routers learn which tokens full experts drop; null: none.
  RouterCapacity* capacity = nullptr;
  /// The index of each token of this rank in the global batch, [rows, tokens] of int64, on the
  /// device of the model; undefined: 0, 1, 2, …
  at::Tensor places = {};
  /// For the last unit, if the model's loss is_in_last_unit(): it returns the mean loss of these
  /// targets. Undefined: its output.
  at::Tensor targets = {};
  /// Whether only the routers' choices matter, so that layers after the last router may do nothing.
  bool only_routes = false;
  /// Whether the backward pass runs this forward pass a second time.
  bool second_run = false;
  /// The name of the unit that runs, for records.
  std::string unit = {};
};

}  // namespace tessera
