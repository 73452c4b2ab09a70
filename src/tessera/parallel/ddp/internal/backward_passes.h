#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

namespace tessera::ddp::detail {

/// The leaves of an autograd graph: the tensors to which a backward pass adds gradients.
using Leaves = std::vector<at::Tensor>;

/// While it lives, `callback` is called after every backward pass of this process that throws, on
/// the thread that has called backward(), with the leaves of its graph and what was thrown.
///
/// Autograd tells nobody of a pass that fails; so the first observer puts itself between backward()
/// and autograd's engine, which costs a pass nothing that can be measured.
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

/// The leaves of every backward pass that is under way in this process, once a FailedPassObserver
/// was made. Walks the graphs.
std::vector<Leaves> leaves_of_passes_under_way();

}  // namespace tessera::ddp::detail
