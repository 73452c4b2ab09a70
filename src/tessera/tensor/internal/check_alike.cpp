#include "tessera/tensor/internal/check_alike.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"

namespace tessera::tensor::detail {
namespace {

// FNV-1a: the same on every machine, unlike std::hash.
int64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return static_cast<int64_t>(hash);
}

// The maximum of each entry over all ranks.
std::array<int64_t, 3> largest_of_all(std::span<const Group> groups,
                                      const std::array<int64_t, 3>& mine) {
  const at::Tensor entries = at::empty({3}, at::kLong);
  auto* const all = entries.mutable_data_ptr<int64_t>();
  std::ranges::copy(mine, all);
  for (const Group& group : groups) (void)all_reduce(entries, group, ReduceOp::kMax).wait();
  return {all[0], all[1], all[2]};
}

}  // namespace

void check_member(const DeviceMesh& mesh) {
  TSR_CHECK(mesh.is_member(), "rank ", mesh.get_rank(), " is not in ", mesh,
            "; only ranks of the mesh have parts of its tensors");
}

std::exception_ptr error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void check_alike(std::span<const Group> groups, const std::string& what, const std::string& value,
                 const std::exception_ptr& error) {
  const int64_t hash = hash_of(value);
  const auto all = largest_of_all(groups, {error ? 1 : 0, hash, ~hash});
  if (error) std::rethrow_exception(error);
  TSR_CHECK(all[0] == 0, what, " was refused on another rank; here it is ", value);
  TSR_CHECK(all[1] == ~all[2], what, " differs between the ranks; here it is ", value,
            "; pass the same on all ranks");
}

}  // namespace tessera::tensor::detail
