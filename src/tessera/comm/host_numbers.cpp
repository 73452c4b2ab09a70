#include "tessera/comm/host_numbers.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "tessera/comm/groups.h"

namespace tessera {

HostNumbers::HostNumbers(const at::Tensor& numbers, Group group) : group_(std::move(group)) {
  const at::Device device = numbers.device();
  const at::Tensor there = numbers.to(at::kDouble);
  numbers_ = at::empty_like(there, at::TensorOptions(at::kCPU).pinned_memory(device.is_cuda()));
  numbers_.copy_(there, /*non_blocking=*/true);
  if (device.is_cpu()) return;
  arrived_ = std::make_unique<c10::Event>(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

HostNumbers::HostNumbers(HostNumbers&&) noexcept = default;
HostNumbers& HostNumbers::operator=(HostNumbers&&) noexcept = default;
HostNumbers::~HostNumbers() = default;

std::vector<double> HostNumbers::wait(std::string_view what) const {
  if (arrived_) wait_until(group_, what, [&] { return arrived_->query(); });
  const auto* const begin = numbers_.const_data_ptr<double>();
  return {begin, begin + numbers_.numel()};
}

}  // namespace tessera
