// The messages of a step.
#include <ATen/ops/zeros.h>

#include "tessera/base/check.h"
#include "tessera/parallel/pipeline/internal/step_run.h"

namespace tessera {

using namespace pipeline::detail;

using enum ActionType;

TensorForms StepRun::sent_forms(const Task& task, Place receiver) {
  if (task.type == kSendBackward) return gradient_forms(crossing_[place_of(task)]);
  if (!announces_) return crossing_[receiver];
  return crossing_[receiver] = forms_of(outgoing_[place_of(task)], training_);
}

Tensors StepRun::payload(const Task& task, const TensorForms& forms) {
  Tensors tensors = take(task.type == kSendForward ? outgoing_ : returning_, place_of(task));
  attempt(task, [&] {
    TSR_CHECK(
        tensors.size() == forms.size() &&
            (task.type == kSendBackward || forms_of(tensors, training_) == forms),
        "stage ", task.stage, " returned ", to_string(forms_of(tensors, training_)),
        " for microbatch ", task.microbatch, ", but ", to_string(forms),
        " in an earlier step with inputs of the same shapes; output shapes must depend on the "
        "shapes of inputs and keywords only, so make a new Pipeline if the model changes");
  });
  if (!failure_) return tensors;
  tensors.clear();
  for (const TensorForm& form : forms) {
    tensors.push_back(at::zeros(form.sizes, at::TensorOptions(form.dtype).device(core_.device)));
  }
  return tensors;
}

void StepRun::send(const Task& task) {
  TensorForms forms = sent_forms(task, {task.stage + 1, task.microbatch});
  const Tensors tensors = payload(task, forms);
  const bool announced = task.type == kSendForward;
  core_.messages.send(task,
                      {.call = core_.calls,
                       .failure = failure_,
                       .forms = announced ? std::move(forms) : TensorForms()},
                      tensors);
}

void StepRun::receive(const Task& task) {
  const Place place = place_of(task);
  if (task.type == kRecvBackward) {
    const TensorForms sent = crossing_[{task.stage + 1, task.microbatch}];
    arriving_gradients_.emplace(place,
                                core_.messages.receive(task, gradient_forms(sent), core_.pool));
    return;
  }
  if (!announces_) {
    arriving_inputs_.emplace(place, core_.messages.receive(task, crossing_[place], core_.pool));
    return;
  }
  Arrival arrival = core_.messages.receive_announced(task, core_.pool);
  crossing_[place] = arrival.forms();
  arriving_inputs_.emplace(place, std::move(arrival));
}

Tensors StepRun::open(Arrival arrival) {
  Message message = std::move(arrival).wait();
  const int64_t call = message.header.call;
  if (call != core_.calls) {
    throw CommError(concat("received a message of call ", call, " in call ", core_.calls,
                           " of group ", core_.group.name(), "; every rank must run every step"));
  }
  if (message.header.failure && !failure_) fail(*message.header.failure, nullptr);
  return std::move(message.tensors);
}

}  // namespace tessera
