#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/train/engine.h"
#include "tessera/train/llama_stages.h"

namespace tessera TSR_API {

/// A Llama on a mesh with the axes "pp" and "dp": each replica is a pipeline of stages, and the
/// replicas share the rows of a batch.
///
/// Where the pipeline has one rank, gradients are reduced while the last microbatch's backward
/// still runs; otherwise at the table's REDUCE_GRAD, while other stages compute.
class ParallelEngine : public Engine {
 public:
  /// **Collective.** The stages have their values; replicas take those of the first. `batch` is the
  /// number of rows of every global batch. ConfigError where replicas would have none.
  ParallelEngine(LlamaStages stages, const Schedule& schedule, const WorldHandle& world,
                 const DeviceMesh& mesh, int64_t batch);
  ParallelEngine(const ParallelEngine&) = delete;  // Its stages' hooks know where it is.
  ParallelEngine& operator=(const ParallelEngine&) = delete;

  RowRange rows(int64_t batch) const override;
  at::Device device() const override { return stages_.parts.front()->device(); }
  at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets) override;
  at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets) override;
  double grad_norm() override;
  NamedParameters parameters() const override { return stages_.parameters(); }

  /// What is done with the times of a recorded step, on the ranks of the first replica.
  using Recorder = std::function<void(const PipelineRecord&)>;
  /// Every so many steps are recorded from now on, 0: none.
  void record(int64_t every, Recorder recorder);

  const Schedule& schedule() const { return pipeline_->schedule(); }
  const DeviceMesh& mesh() const { return mesh_; }
  /// **Collective.**
  void save(const std::string& folder) const;

 private:
  Stage make_stage(size_t i);
  StageHooks hooks_of(size_t i);
  /// This replica's share of a batch.
  double share() const;
  at::Tensor mean_over_all(const at::Tensor& loss) const;

  LlamaStages stages_;
  DeviceMesh mesh_;
  Group world_;
  TiedHead tied_;
  int64_t batch_;
  std::vector<Ddp> ddp_ = {};                     // One a stage.
  std::vector<std::optional<Ddp::NoSync>> held_;  // While a stage's gradients are its rank's own.
  std::optional<Pipeline> pipeline_ = std::nullopt;
  int64_t steps_ = 0;
  int64_t record_every_ = 0;
  Recorder recorder_ = {};
};

}  // namespace tessera
