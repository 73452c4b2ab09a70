#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <optional>

#include "tessera/parallel/pipeline/internal/activation.h"
#include "tessera/parallel/pipeline/internal/agreement.h"
#include "tessera/parallel/pipeline/internal/batch_slices.h"
#include "tessera/parallel/pipeline/internal/core.h"

namespace tessera::pipeline::detail {

/// One run of this rank's row of the schedule. If a rank fails, it continues without computing, so
/// that it sends and receives every message, and the ranks that wait for it learn of the failure.
class StepRun {
 public:
  StepRun(PipelineCore& core, const PipelineBatch& batch, StepKind kind, const AgreedStep& agreed);

  PipelineResult run();

 private:
  using Clock = std::chrono::steady_clock;

  bool is_wanted(const Task& task) const;
  void perform(const Action& action);
  void perform_compute(const Action& action);
  void perform_other(const Task& task);

  // Messages.
  void send(const Task& task);
  void receive(const Task& task);
  Tensors open(Arrival arrival);
  /// The tensors to send; after a failure zeros of the same forms.
  Tensors payload(const Task& task, const TensorForms& forms);
  TensorForms sent_forms(const Task& task, Place receiver);

  // Compute.
  void await(const Task& task);
  void compute(const Task& task);
  void forward(const Task& task);
  bool has_loss() const;
  void compute_loss(const Task& task, Activation& activation);
  void backward(const Task& task);
  void weight_gradients(const Task& task);
  void send_to_next(const Task& task, int32_t to, Tensors tensors);
  static Tensors take(std::map<Place, Tensors>& map, Place place);
  void announce_last_backward(const Task& task);

  BackwardForm form_of(const Task& task) const;

  /// Runs the body; an exception becomes this rank's failure, unless there is one already.
  void guard(const Task& task, const std::function<void()>& body);
  /// The same, unless the step has failed.
  void attempt(const Task& task, const std::function<void()>& body);
  void call_hook(const std::function<void()>& hook, const Task& task);
  void fail(const StepFailure& failure, std::exception_ptr error);
  void record(const Action& action, Clock::time_point start);
  PipelineResult result();
  [[noreturn]] void throw_failure() const;

  PipelineCore& core_;
  const PipelineBatch& batch_;
  const bool training_;
  const BatchSlices slices_;
  const Clock::time_point origin_ = Clock::now();

  CrossingForms& crossing_;
  const bool announces_;
  std::map<Place, Arrival> arriving_inputs_ = {};
  std::map<Place, Arrival> arriving_gradients_ = {};
  std::map<Place, Tensors> inputs_ = {};     // Inputs of F.
  std::map<Place, Tensors> gradients_ = {};  // Output gradients for B or I.
  std::map<Place, Tensors> outgoing_ = {};   // Outputs of F that must be sent.
  std::map<Place, Tensors> returning_ = {};  // Input gradients of B or I that must be sent.
  std::map<Place, Activation> activations_ = {};
  std::map<int32_t, int64_t> backwards_left_ = {};  // Number of B and W that follow, by stage.

  std::optional<StepFailure> failure_ = std::nullopt;
  std::exception_ptr error_ = nullptr;  // Set if this rank itself failed.

  std::map<int32_t, Tensors> outputs_ = {};  // By microbatch.
  std::map<int32_t, at::Tensor> losses_ = {};
  int64_t peak_ = 0;
  std::vector<RecordedAction> recorded_ = {};
};

}  // namespace tessera::pipeline::detail
