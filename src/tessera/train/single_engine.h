#pragma once

#include <functional>

#include "tessera/base/export.h"
#include "tessera/train/engine.h"

namespace tessera TSR_API {

/// The mean loss of some rows: token_loss(model.forward(inputs), targets), for instance.
using LossFunction = std::function<at::Tensor(const at::Tensor& inputs, const at::Tensor& targets)>;

struct SingleEngineOptions {
  at::Device device = at::kCPU;
  int64_t accumulate = 1;  // Into how many slices a batch is cut, one after the other.
};

/// One process that holds the whole model, whatever model that is. Slices count by their rows, so
/// that accumulation changes the memory and not the gradient.
class SingleEngine : public Engine {
 public:
  SingleEngine(NamedParameters parameters, LossFunction loss,
               const SingleEngineOptions& options = {});

  RowRange rows(int64_t batch) const override { return {0, batch}; }
  at::Device device() const override { return options_.device; }
  at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets) override;
  at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets) override;
  double grad_norm() override;
  NamedParameters parameters() const override { return parameters_; }

 private:
  NamedParameters parameters_;
  LossFunction loss_;
  SingleEngineOptions options_;
};

}  // namespace tessera
