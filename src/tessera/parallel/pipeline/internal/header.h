#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "tessera/parallel/pipeline/internal/tensor_form.h"
#include "tessera/schedule/action.h"
#include "tessera/topology/rank.h"

namespace tessera::pipeline::detail {

/// Where a step has failed first, as far as a rank knows.
struct StepFailure {
  GroupRank rank = {};
  Task task = {};
};

/// What goes before the tensors of a message, always of one size.
struct Header {
  int64_t call = 0;  // The sender's count of steps and evaluations.
  std::optional<StepFailure> failure = std::nullopt;
  TensorForms forms = {};  // Of the tensors, in a message to the next stage.
};

/// The most tensors that cross from one stage to the next, and the most dimensions they have.
inline constexpr size_t kMostTensors = 8;
inline constexpr size_t kMostDimensions = 8;

/// ConfigError where the forms are more than a header can hold.
void check_forms(const TensorForms& forms);

/// An empty one to receive into.
at::Tensor empty_header(at::Device device);
at::Tensor to_tensor(const Header& header, at::Device device);
Header to_header(const at::Tensor& tensor);

}  // namespace tessera::pipeline::detail
