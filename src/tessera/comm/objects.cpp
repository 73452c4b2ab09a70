#include "tessera/comm/objects.h"

#include <ATen/ATen.h>

#include "tessera/comm/collectives.h"

namespace tessera {
namespace {

at::TensorOptions options_of(const Group& group) {
  return at::TensorOptions(at::kByte).device(group.device());
}

at::Tensor to_tensor(const Bytes& bytes, const Group& group) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<uint8_t>());
  return tensor.to(options_of(group).device());
}

Bytes to_bytes(const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu().contiguous();
  return {here.data_ptr<uint8_t>(), here.data_ptr<uint8_t>() + here.numel()};
}

}  // namespace

Bytes broadcast_bytes(const Bytes& bytes, Member src, const Group& group) {
  const at::Tensor size =
      at::full({1}, static_cast<int64_t>(bytes.size()), options_of(group).dtype(at::kLong));
  (void)broadcast(size, src, group).wait();
  at::Tensor tensor = to_tensor(bytes, group);
  if (group.rank() != src.in(group)) tensor = at::empty({size.item<int64_t>()}, options_of(group));
  return to_bytes(broadcast(tensor, src, group).wait());
}

std::vector<Bytes> all_gather_bytes(const Bytes& bytes, const Group& group) {
  std::vector<Bytes> all;
  for (const at::Tensor& tensor : all_gather_uneven(to_tensor(bytes, group), group).wait()) {
    all.push_back(to_bytes(tensor));
  }
  return all;
}

}  // namespace tessera
