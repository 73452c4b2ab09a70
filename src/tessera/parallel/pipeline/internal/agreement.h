#pragma once

#include <cstdint>
#include <functional>

#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/pipeline.h"

namespace tessera::pipeline::detail {

enum class StepKind : int64_t { kTraining, kEvaluation };

/// What a rank reports about the step that it begins. Rows are -1 if it has none.
struct StepTerms {
  int64_t call = 0;  // Its number of steps and evaluations so far.
  StepKind kind = StepKind::kTraining;
  int64_t step = -1;  // The caller's step number.
  int64_t input_rows = -1;
  int64_t target_rows = -1;
  int64_t keyword_rows = -1;
  uint64_t shapes = 0;         // Digest of the shapes of its inputs.
  bool failed_before = false;  // Whether its last call failed.
};

/// The step as all ranks have agreed on it.
struct AgreedStep {
  int64_t rows = 0;
  uint64_t shapes = 0;  // Digest of all ranks' inputs; equal digests mean equal message shapes.
  bool failed_before = false;  // Whether the last call failed on any rank.
};

/// This rank's terms. ConfigError if its inputs cannot be split by rows.
StepTerms terms_of(const PipelineBatch& batch, bool has_first_stage, bool has_last_stage);

/// **Collective.** Calls `terms`, which may throw, and compares the results. If it throws on a
/// rank, that rank throws this error and the others a ConfigError. If the ranks are not in the same
/// step, all throw the same CommError; if their batches do not fit, the same ConfigError.
AgreedStep agree_on_step(const Group& group, int64_t microbatches,
                         const std::function<StepTerms()>& terms);

}  // namespace tessera::pipeline::detail
