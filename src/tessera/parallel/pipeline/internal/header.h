#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "tessera/parallel/pipeline/internal/tensor_form.h"
#include "tessera/schedule/action.h"
#include "tessera/topology/rank.h"

namespace tessera::pipeline::detail {

/// Where a step failed first, as far as this rank knows.
struct StepFailure {
  GroupRank rank = {};
  Task task = {};
};

/// Header of a message, before its tensors; always of the same size.
struct Header {
  int64_t call = 0;  // The sender's number of steps and evaluations so far.
  std::optional<StepFailure> failure = std::nullopt;
  TensorForms forms = {};  // Forms of the tensors; empty for gradients.
};

/// Limits for the tensors that one stage sends to the next.
inline constexpr size_t kMostTensors = 8;
inline constexpr size_t kMostDimensions = 8;

/// ConfigError if the forms do not fit into a header.
void check_forms(const TensorForms& forms);

/// An empty header to receive into. Headers are in the memory of the host, so that a rank which
/// reads one does not wait for its GPU.
at::Tensor empty_header();
at::Tensor to_tensor(const Header& header);
Header to_header(const at::Tensor& tensor);

}  // namespace tessera::pipeline::detail
