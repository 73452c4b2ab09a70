#include "tessera/train/host_numbers.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "tessera/comm/groups.h"

namespace tessera {

HostNumbers::HostNumbers(at::TensorList scalars, Group group)
    : group_(std::move(group)), numbers_(at::stack(scalars)) {
  const at::Device device = numbers_.device();
  if (device.is_cpu()) return;
  const at::Tensor there = numbers_;
  numbers_ = at::empty_like(there, at::TensorOptions(at::kCPU).pinned_memory(true));
  numbers_.copy_(there, /*non_blocking=*/true);
  arrived_ = std::make_unique<c10::Event>(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

HostNumbers::HostNumbers(HostNumbers&&) noexcept = default;
HostNumbers& HostNumbers::operator=(HostNumbers&&) noexcept = default;
HostNumbers::~HostNumbers() = default;

double HostNumbers::operator[](int64_t index) const {
  if (arrived_) wait_until(group_, "the loss of a step", [&] { return arrived_->query(); });
  return numbers_.const_data_ptr<double>()[index];
}

}  // namespace tessera
