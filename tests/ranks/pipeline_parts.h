#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "tessera/layer/linear.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/schedule/search.h"
#include "tests/testkit/device.h"

/// A small model in parts, and its results in one process.
namespace tessera::testkit {

inline constexpr int64_t kWidth = 4;

/// Values that only depend on the number: the same model on every rank.
inline at::Tensor values(int64_t number, const std::vector<int64_t>& sizes,
                         at::ScalarType dtype = at::kDouble) {
  const at::Tensor flat = at::arange(at::empty(sizes).numel(), here(at::kDouble));
  return at::sin(flat * 1.7 + static_cast<double>(number)).mul(0.5).reshape(sizes).to(dtype);
}

/// One stage's layer. The gain's gradient cannot be deferred, those of weight and bias can.
struct Part {
  explicit Part(int64_t stage, at::ScalarType dtype = at::kDouble)
      : weight(values(3 * stage, {kWidth, kWidth}, dtype).requires_grad_()),
        bias(values(3 * stage + 1, {kWidth}, dtype).requires_grad_()),
        gain(values(3 * stage + 2, {kWidth}, dtype).requires_grad_()) {}

  at::Tensor forward(const at::Tensor& x, const WeightGradients* deferred = nullptr) const {
    return at::tanh(linear(x, weight, bias, {.deferred = deferred})) * gain + x;
  }
  Tensors parameters() const { return {weight, bias, gain}; }

  at::Tensor weight;
  at::Tensor bias;
  at::Tensor gain;
};

using Parts = std::vector<Part>;

inline Parts make_parts(int64_t count, at::ScalarType dtype = at::kDouble) {
  Parts parts;
  for (int64_t stage = 0; stage < count; ++stage) parts.emplace_back(stage, dtype);
  return parts;
}

inline at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return at::mse_loss(output, target);
}
inline at::Tensor loss_of_stage(const Tensors& outputs, const at::Tensor& target) {
  return loss_of(outputs.at(0), target);
}

inline at::Tensor inputs_of(int64_t rows, at::ScalarType dtype = at::kDouble) {
  return values(100, {rows, kWidth}, dtype);
}
inline at::Tensor targets_of(int64_t rows, at::ScalarType dtype = at::kDouble) {
  return values(200, {rows, kWidth}, dtype);
}

/// All parts one after the other.
inline at::Tensor forward_all(const Parts& parts, at::Tensor x) {
  for (const Part& part : parts) x = part.forward(x);
  return x;
}

/// Even stages defer their weight gradients, odd ones do not support it.
inline Stage stage_of(int64_t index, const Part& part) {
  const bool defers = index % 2 == 0;
  return {.index = index,
          .forward =
              [part, defers](const Tensors& inputs, const StagePass& pass) {
                return Tensors{part.forward(inputs.at(0), defers ? pass.deferred : nullptr)};
              },
          .defers = defers};
}

/// The stages of this rank in the schedule.
inline std::vector<Stage> stages_of(const Parts& parts, const Schedule& schedule, GroupRank rank) {
  std::vector<Stage> stages;
  for (const int64_t index : schedule.stages_of(rank)) {
    stages.push_back(stage_of(index, parts.at(static_cast<size_t>(index))));
  }
  return stages;
}

/// Whether the gradients of a rank's stages equal those of one process.
inline bool same_gradients(const Parts& parts, const Parts& reference,
                           const std::vector<int64_t>& stages, double tolerance) {
  for (const int64_t stage : stages) {
    const Tensors found = parts[static_cast<size_t>(stage)].parameters();
    const Tensors wanted = reference[static_cast<size_t>(stage)].parameters();
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].grad().defined() ||
          !at::allclose(found[i].grad(), wanted[i].grad(), 0, tolerance)) {
        return false;
      }
    }
  }
  return true;
}

inline constexpr ScheduleKind kAllKinds[] = {ScheduleKind::kGPipe,
                                             ScheduleKind::k1F1B,
                                             ScheduleKind::kInterleaved1F1B,
                                             ScheduleKind::kLoopedBFS,
                                             ScheduleKind::kInterleavedZeroBubble,
                                             ScheduleKind::kZBVZeroBubble,
                                             ScheduleKind::kDualPipeV,
                                             ScheduleKind::kZBH1,
                                             ScheduleKind::kZBH2,
                                             ScheduleKind::kVHalf,
                                             ScheduleKind::kVMin,
                                             ScheduleKind::kAuto};

}  // namespace tessera::testkit
