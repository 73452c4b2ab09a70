#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

class GpuGraph;

/// Training steps of one rank that its GPU repeats from a recording (a CUDA graph), so that the
/// host need not start their kernels one by one.
///
/// The first steps of a form run as usual, the next one is recorded, and from then on the recording
/// is repeated. The form is the shape of the batch, the loss scale and where the weights lie: if it
/// changes, or if a batch of another shape is evaluated, it all begins again. A step that is
/// recorded by PipelineBatch::record, or that adds to existing gradients, runs as usual.
class GraphedStep {
 public:
  /// How many steps of a form run before one is recorded: libraries prepare themselves in them.
  static constexpr int64_t kWarmUpSteps = 3;

  /// `parameters` are those that get gradients. ConfigError if the device cannot record.
  GraphedStep(at::Device device, Parameters parameters);
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;
  ~GraphedStep();

  /// Pipeline::step(), with the same pipeline in each call, whose keywords are no tensors. The next
  /// call overwrites tensors of the result, and gradients.
  PipelineResult run(Pipeline& pipeline, const PipelineBatch& batch);
  /// Pipeline::evaluate(), also with the same pipeline.
  PipelineResult evaluate(Pipeline& pipeline, const PipelineBatch& batch);

 private:
  /// What a recording cannot change.
  struct Form {
    std::vector<int64_t> inputs;       // Their shape.
    std::vector<int64_t> target;       // Its shape.
    double loss_scale;                 // A factor in the kernels' arguments.
    std::vector<const void*> weights;  // Their addresses, like those of all tensors.
    friend bool operator==(const Form&, const Form&) = default;
  };
  struct Recorded {
    PipelineBatch batch;  // Where the recording reads.
    PipelineResult result;
    std::vector<at::Tensor> gradients;  // Where it writes those of the parameters.
  };

  Form form_of(const PipelineBatch& batch) const;
  void begin(std::optional<Form> form);
  bool has_gradients() const;
  void record(Pipeline& pipeline, const PipelineBatch& batch);
  PipelineResult replay(const PipelineBatch& batch);

  Parameters parameters_;
  std::unique_ptr<GpuGraph> graph_;
  std::optional<Form> form_ = std::nullopt;
  int64_t warm_ups_ = 0;  // Steps of the form that ran as usual.
  std::optional<Recorded> recorded_ = std::nullopt;
};

}  // namespace tessera
