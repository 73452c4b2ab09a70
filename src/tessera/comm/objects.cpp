#include "tessera/comm/objects.h"

#include <ATen/ATen.h>

#include "tessera/comm/collectives.h"

namespace tessera {
namespace {

// Bytes stay in the memory of the host, so that no GPU is waited for.
at::Tensor to_tensor(const Bytes& bytes) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_data_ptr<uint8_t>());
  return tensor;
}

Bytes to_bytes(const at::Tensor& tensor) {
  const at::Tensor here = tensor.contiguous();
  return {here.data_ptr<uint8_t>(), here.data_ptr<uint8_t>() + here.numel()};
}

}  // namespace

Bytes broadcast_bytes(const Bytes& bytes, Member src, const Group& group) {
  const at::Tensor size = at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong);
  (void)broadcast(size, src, group).wait();
  at::Tensor tensor = to_tensor(bytes);
  if (group.rank() != src.in(group)) tensor = at::empty({size.item<int64_t>()}, at::kByte);
  return to_bytes(broadcast(tensor, src, group).wait());
}

std::vector<Bytes> all_gather_bytes(const Bytes& bytes, const Group& group) {
  std::vector<Bytes> all;
  for (const at::Tensor& tensor : all_gather_uneven(to_tensor(bytes), group).wait()) {
    all.push_back(to_bytes(tensor));
  }
  return all;
}

}  // namespace tessera
