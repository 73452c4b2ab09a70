#include "tessera/parallel/ddp/internal/same_model.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <set>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::ddp::detail {
namespace {

constexpr int64_t kMessageBytes = int64_t{32} << 20;  // Bytes per broadcast.

std::string text_of(const at::Tensor& tensor) {
  std::string text = concat(c10::toString(tensor.scalar_type()), " [", join(tensor.sizes(), ", "),
                            "] on ", tensor.device().type());
  if (!tensor.is_contiguous()) text += concat(" with strides [", join(tensor.strides(), ", "), "]");
  return text;
}

// What must be equal on all ranks, one line per item.
std::vector<std::string> lines_of(const DdpTensors& tensors, const DdpOptions& options) {
  std::vector<std::string> lines{
      concat("bucket_bytes ", options.bucket_bytes, " and reduce_dtype ",
             options.reduce_dtype ? c10::toString(*options.reduce_dtype) : "of the parameters")};
  for (const Parameter& parameter : tensors.parameters) {
    lines.push_back(concat("parameter '", parameter.name, "' of ", text_of(parameter.tensor),
                           parameter.tensor.requires_grad() ? "" : ", which is not trained"));
  }
  for (const Parameter& parameter : tensors.buffers) {
    lines.push_back(concat("buffer '", parameter.name, "' of ", text_of(parameter.tensor)));
  }
  return lines;
}

void check_tensor(const std::string& what, const at::Tensor& tensor, const Group& group) {
  TSR_CHECK(tensor.defined(), what, " is undefined; leave it out");
  TSR_CHECK(tensor.layout() == at::kStrided, what, " is of layout ", tensor.layout(),
            "; only dense tensors are replicated");
  TSR_CHECK(!is_unallocated(tensor), what,
            " is not allocated yet; load or initialize the model first");
  TSR_CHECK(group.takes(tensor.device().type()), what, " is on ", tensor.device().str(),
            ", but group ", group.name(), " uses ", to_string(group.backend()),
            "; move the model, or use gloo");
}

void check_trained(const std::string& what, const at::Tensor& tensor) {
  TSR_CHECK(tensor.is_floating_point(), what, " is of ", tensor.scalar_type(),
            "; gradients need a real floating-point dtype");
  TSR_CHECK(tensor.is_leaf(), what, " is not a leaf tensor; pass the parameter itself");
  TSR_CHECK(!torch::autograd::impl::post_acc_grad_hooks(tensor), what,
            " already has a gradient hook; use only one data-parallel strategy per parameter");
}

void check_options(const DdpOptions& options) {
  TSR_CHECK(options.bucket_bytes > 0, "bucket_bytes must be ≥ 1, but is ", options.bucket_bytes);
  TSR_CHECK(!options.reduce_dtype || c10::isFloatingType(*options.reduce_dtype), "reduce_dtype is ",
            c10::toString(options.reduce_dtype.value_or(at::kFloat)),
            "; choose a real floating-point dtype");
}

// The checks that need no other rank.
void check_here(const DdpTensors& tensors, const DdpOptions& options, const Group& group) {
  check_options(options);
  std::set<std::string> names;
  for (const Parameter& parameter : tensors.parameters) {
    const std::string what = concat("parameter '", parameter.name, "'");
    check_tensor(what, parameter.tensor, group);
    if (parameter.tensor.requires_grad()) check_trained(what, parameter.tensor);
    TSR_CHECK(names.insert(parameter.name).second, what, " is listed twice; names must be unique");
    TSR_CHECK(parameter.tensor.device() == tensors.parameters[0].tensor.device(), what, " is on ",
              parameter.tensor.device().str(), ", others are on ",
              tensors.parameters[0].tensor.device().str(), "; a replica must be on one device");
  }
  for (const Parameter& parameter : tensors.buffers) {
    check_tensor(concat("buffer '", parameter.name, "'"), parameter.tensor, group);
  }
}

// Why this rank refuses; "" if it does not.
std::string refusal_of(const DdpTensors& tensors, const DdpOptions& options, const Group& group) {
  try {
    check_here(tensors, options, group);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Tensors of one dtype that are broadcast together.
struct Message {
  std::vector<at::Tensor> tensors;
  int64_t bytes = 0;
};

void send(const Message& message, const Group& group) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : message.tensors) flat.push_back(tensor.reshape({-1}));
  const at::Tensor all = broadcast(at::cat(flat), GroupRank{0}, group).wait();
  if (group.rank() == GroupRank{0}) return;
  int64_t begin = 0;
  for (const at::Tensor& tensor : message.tensors) {
    tensor.copy_(all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace

void check_same_model(const DdpTensors& tensors, const DdpOptions& options, const Group& group) {
  const std::string refusal = refusal_of(tensors, options, group);
  throw_together(group, "the model cannot be replicated on the ranks",
                 refusal.empty() ? "" : "says: " + refusal);
  check_same(group, "the models differ on the ranks", lines_of(tensors, options));
}

void take_values_of_first(std::span<const Parameter> tensors, const Group& group) {
  std::map<at::ScalarType, Message> open;
  for (const Parameter& parameter : tensors) {
    Message& message = open[parameter.tensor.scalar_type()];
    message.tensors.push_back(parameter.tensor.detach());
    message.bytes += static_cast<int64_t>(parameter.tensor.nbytes());
    if (message.bytes < kMessageBytes) continue;
    send(message, group);
    message = {};
  }
  for (const auto& [dtype, message] : open) {
    if (!message.tensors.empty()) send(message, group);
  }
}

}  // namespace tessera::ddp::detail
