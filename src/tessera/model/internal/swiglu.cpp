#include "tessera/model/internal/swiglu.h"

#include <array>

#include "tessera/layer/swiglu.h"
#include "tessera/parallel/tensor/row_linear.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::model::detail {

at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options) {
  return unallocated(shape, options).requires_grad_();
}

Projection::Projection(int64_t inputs, int64_t outputs, bool has_bias, CutBy cut,
                       const at::TensorOptions& options)
    : weight(make_parameter({outputs, inputs}, options)), cut(cut) {
  if (has_bias) bias = make_parameter({outputs}, options);
}

// A layer sharded by its inputs adds its bias once, to the sum.
void Projection::list(const std::string& name, Parameters& to, std::optional<int64_t> heads) const {
  const bool by_outputs = cut == CutBy::kOutputs;
  to.push_back({name + ".weight", weight, by_outputs ? 0 : 1});
  to.back().tensor_blocks = heads;
  if (!bias.defined()) return;
  to.push_back({name + ".bias", bias, by_outputs ? std::optional<size_t>(0) : std::nullopt});
  if (by_outputs) to.back().tensor_blocks = heads;
}

SwiGlu::SwiGlu(int64_t hidden, int64_t width, bool has_bias, const at::TensorOptions& options)
    : gate(hidden, width, has_bias, CutBy::kOutputs, options),
      up(hidden, width, has_bias, CutBy::kOutputs, options),
      down(width, hidden, has_bias, CutBy::kInputs, options) {}

at::Tensor SwiGlu::operator()(const at::Tensor& x, const Pass& pass) const {
  const std::vector<at::Tensor> wide =
      column_linear(x, std::array{gate.weights(), up.weights()}, pass);
  return row_linear(swiglu(wide[0], wide[1]), down.weight, down.bias, pass);
}

void SwiGlu::list(const std::string& name, Parameters& to) const {
  gate.list(name + ".gate_proj", to);
  up.list(name + ".up_proj", to);
  down.list(name + ".down_proj", to);
}

}  // namespace tessera::model::detail
