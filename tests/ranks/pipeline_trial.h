#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/schedule/simulate.h"
#include "tests/ranks/pipeline_parts.h"
#include "tests/testkit/ranks.h"

namespace tessera::testkit {

/// A model on a pipeline, and the same model in this process only.
struct PipelineTrial {
  // kAuto: that of the world.
  PipelineTrial(const World& world, const Schedule& schedule, Backend backend = Backend::kAuto)
      : parts(make_parts(schedule.num_stages())),
        reference(make_parts(schedule.num_stages())),
        mine(schedule.stages_of(GroupRank{world.rank().value})),
        pipeline(stages_of(parts, schedule, GroupRank{world.rank().value}), schedule,
                 world.group(world.group().ranks(), {.backend = backend}),
                 {.loss = loss_of_stage, .device = testkit::device()}) {}

  // Only the inputs that this rank needs.
  PipelineBatch batch(int64_t rows) const {
    PipelineBatch given;
    if (pipeline.has_first_stage()) given.inputs = {inputs_of(rows)};
    if (pipeline.has_last_stage()) given.target = targets_of(rows);
    return given;
  }

  double reference_step(int64_t rows) {
    const at::Tensor loss = loss_of(forward_all(reference, inputs_of(rows)), targets_of(rows));
    loss.backward();
    return loss.item<double>();
  }

  void check_step(int64_t rows) {
    const double wanted = reference_step(rows);
    const PipelineResult result = pipeline.step(batch(rows));
    RANK_EXPECT(result.losses.size() ==
                (pipeline.has_last_stage() ? size_t(pipeline.schedule().microbatches()) : 0));
    RANK_EXPECT(std::abs(pipeline.share_loss(result).item<double>() - wanted) < kTolerance) << rows;
    RANK_EXPECT(same_gradients(parts, reference, mine, kTolerance)) << rows;
    const auto simulated = simulate(pipeline.schedule(), {});
    const auto rank = static_cast<size_t>(pipeline.group().rank().value);
    RANK_EXPECT(result.peak_activations == simulated.ranks[rank].peak_activations)
        << result.peak_activations;
  }

  static constexpr double kTolerance = 1e-12;  // Sums of doubles in another order.
  Parts parts;
  Parts reference;
  std::vector<int64_t> mine;
  Pipeline pipeline;
};

}  // namespace tessera::testkit
