#pragma once

#include <cstdint>
#include <functional>

#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/pipeline.h"

namespace tessera::pipeline::detail {

enum class StepKind : int64_t { kTraining, kEvaluation };

/// What a rank says of the step that it begins. Rows are -1 where it brings none.
struct StepTerms {
  int64_t call = 0;  // Its count of steps and evaluations.
  StepKind kind = StepKind::kTraining;
  int64_t step = -1;  // The caller's number.
  int64_t input_rows = -1;
  int64_t target_rows = -1;
  int64_t keyword_rows = -1;
  uint64_t shapes = 0;         // A digest of what it brings.
  bool failed_before = false;  // Whether its last call did.
};

/// What all ranks have agreed on.
struct AgreedStep {
  int64_t rows = 0;
  uint64_t shapes = 0;  // A digest of what all bring: with equal ones, messages are equal, too.
  bool failed_before = false;  // Whether the last call did on any rank.
};

/// What this rank brings to the step. ConfigError where that cannot be split by rows.
StepTerms terms_of(const PipelineBatch& batch, bool has_first_stage, bool has_last_stage);

/// **Collective.** Runs `terms`, which may refuse, and compares the results. Where a rank refuses,
/// it throws its own error and the others a ConfigError; ranks that are not in the same step all
/// throw the same CommError, and batches that do not fit a ConfigError.
AgreedStep agree_on_step(const Group& group, int64_t microbatches,
                         const std::function<StepTerms()>& terms);

}  // namespace tessera::pipeline::detail
