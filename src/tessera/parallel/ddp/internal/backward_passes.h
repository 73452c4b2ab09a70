#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

namespace tessera::ddp::detail {

/// The leaves of an autograd graph: the tensors to which a backward pass adds gradients.
using Leaves = std::vector<at::Tensor>;

/// During its lifetime, `callback` is called after every backward pass of this process that throws,
/// on the thread that called backward(), with the leaves of its graph and the error.
///
/// Autograd has no hook for a failed pass. So the first observer wraps autograd's engine, at no
/// measurable cost per pass.
class FailedPassObserver {
 public:
  using Callback = std::function<void(const Leaves& leaves, const std::string& error)>;

  explicit FailedPassObserver(Callback callback);
  FailedPassObserver(const FailedPassObserver&) = delete;
  FailedPassObserver& operator=(const FailedPassObserver&) = delete;
  ~FailedPassObserver();

 private:
  std::list<Callback>::iterator place_;
};

/// The leaves of every backward pass in flight in this process, once a FailedPassObserver was made.
/// Walks the graphs.
std::vector<Leaves> leaves_of_passes_in_flight();

}  // namespace tessera::ddp::detail
