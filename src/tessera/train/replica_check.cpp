#include "tessera/train/replica_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"

namespace tessera {

struct ReplicaCheck::Finding {
  int64_t voters = 0;  // Ranks that hold the tensor; 0: nothing was found.
  int64_t rank = 0;    // The rank that differs,
  int64_t from = 0;    // and the first one of the majority.
  std::string tensor = {};

  bool is_before(const Finding& other) const {
    if (voters != other.voters) return voters > other.voters;
    return std::pair(rank, tensor) < std::pair(other.rank, other.tensor);
  }

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Finding, voters, rank, from, tensor)
};

namespace {

constexpr int64_t kRow = 1024;  // Words of 8 bytes.

// The bytes as whole rows of words, without a copy if they are aligned, and the rest.
std::vector<at::Tensor> rows_of(const at::Tensor& tensor) {
  at::Tensor flat = tensor.detach().reshape(-1);
  const auto address = reinterpret_cast<uintptr_t>(flat.const_data_ptr());
  const auto offset = static_cast<size_t>(flat.storage_offset()) * flat.itemsize();
  if (address % sizeof(int64_t) != 0 || offset % sizeof(int64_t) != 0) flat = flat.clone();
  const at::Tensor bytes = flat.view(at::kByte);
  constexpr int64_t kRowBytes = kRow * static_cast<int64_t>(sizeof(int64_t));
  const int64_t even = bytes.numel() / kRowBytes * kRowBytes;
  std::vector<at::Tensor> rows;
  if (even > 0) rows.push_back(bytes.narrow(0, 0, even).view(at::kLong).view({-1, kRow}));
  if (even < bytes.numel()) {
    const at::Tensor rest = bytes.narrow(0, even, bytes.numel() - even);
    rows.push_back(
        at::constant_pad_nd(rest, {0, kRowBytes - rest.numel()}).view(at::kLong).view({1, kRow}));
  }
  return rows;
}

// Wrapping sums of the rows, each times an odd number of its own. Integers add up to the same in
// every order, and a change of one word always changes the result.
at::Tensor digest_of(const at::Tensor& tensor) {
  constexpr int64_t kEven = 0x1E3779B97F4A7C14;
  at::Tensor sum = at::zeros({}, tensor.options().dtype(at::kLong).requires_grad(false));
  int64_t row = 0;
  for (const at::Tensor& rows : rows_of(tensor)) {
    const int64_t end = row + rows.size(0);
    const at::Tensor factors = at::arange(row, end, sum.options()) * kEven + 1;
    sum = sum * 31 + (rows.sum(1) * factors).sum();
    row = end;
  }
  return sum;
}

uint64_t key_of(const ReplicaTensor& held) {
  std::string text = held.name;
  for (const Span& span : held.part.spans()) text += concat(" ", span.begin, "-", span.end);
  return std::hash<std::string>{}(text);
}

int64_t combined(const std::vector<size_t>& tensors, const std::vector<int64_t>& digests) {
  uint64_t sum = 0;
  for (const size_t index : tensors)
    sum = sum * 0x100000001B3 + static_cast<uint64_t>(digests[index]);
  return static_cast<int64_t>(sum);
}

// The digest that most have; the first one of these if several are as frequent.
int64_t majority_of(const std::vector<int64_t>& digests) {
  return *std::ranges::max_element(
      digests, {}, [&](int64_t digest) { return std::ranges::count(digests, digest); });
}

}  // namespace

ReplicaTensors replica_tensors(const Parameters& parameters, const Optimizer& optimizer) {
  ReplicaTensors held;
  std::map<std::string, const Parameter*, std::less<>> by_name;
  for (const Parameter& parameter : parameters) {
    by_name[parameter.name] = &parameter;
    held.push_back({parameter.name, parameter.tensor, parameter.place.part});
  }
  for (const OptimizerState& state : optimizer.state()) {
    held.push_back(
        {concat(state.name, ".", state.kind), state.tensor, by_name.at(state.name)->place.part});
  }
  return held;
}

ReplicaCheck::ReplicaCheck(const RealizedPlan& plan, const Group& world, ReplicaTensors tensors)
    : tensors_(std::move(tensors)), world_(world) {
  std::erase_if(tensors_, [](const ReplicaTensor& held) { return held.part.numel() == 0; });
  std::vector<uint64_t> keys;
  for (const ReplicaTensor& held : tensors_) keys.push_back(key_of(held));
  for (const Group& group : plan.groups()) {
    const bool known = std::ranges::any_of(
        compared_, [&](const Compared& other) { return other.group.ranks() == group.ranks(); });
    if (group.size() == 1 || known) continue;
    compared_.push_back({group, replicas_in(group, keys)});
  }
}

std::vector<ReplicaCheck::Replicas> ReplicaCheck::replicas_in(const Group& group,
                                                              const std::vector<uint64_t>& keys) {
  std::map<uint64_t, std::vector<int64_t>> holders;
  const std::vector<std::vector<uint64_t>> ranks = all_gather_object(keys, group);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const uint64_t key : ranks[rank]) holders[key].push_back(static_cast<int64_t>(rank));
  }
  std::map<uint64_t, size_t> mine;
  for (size_t i = 0; i < keys.size(); ++i) mine[keys[i]] = i;
  std::map<std::vector<int64_t>, std::vector<size_t>> sets;  // In the same order on all members.
  for (const auto& [key, members] : holders) {
    if (members.size() < 2) continue;
    std::vector<size_t>& tensors = sets[members];
    if (mine.contains(key)) tensors.push_back(mine[key]);
  }
  std::vector<Replicas> found;
  for (auto& [members, list] : sets) found.push_back({members, std::move(list)});
  return found;
}

std::vector<int64_t> ReplicaCheck::digests() const {
  if (tensors_.empty()) return {};
  std::vector<at::Tensor> each;
  // Of several devices, e.g. step counts of an offloaded optimizer.
  for (const ReplicaTensor& held : tensors_) {
    each.push_back(digest_of(held.tensor).to(tensors_[0].tensor.device()));
  }
  const at::Tensor all = at::stack(each).cpu();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

void ReplicaCheck::check(const std::string& after) const {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> own = digests();
  std::vector<Finding> findings;
  for (const Compared& compared : compared_) compare(compared, own, findings);
  const at::Tensor any = at::full({1}, !findings.empty(), at::kInt);
  if (!all_reduce(any, world_, ReduceOp::kMax).wait().item<bool>()) return;
  Finding first;
  for (const auto& each : all_gather_object(findings, world_)) {
    for (const Finding& finding : each) {
      if (finding.is_before(first)) first = finding;
    }
  }
  throw NumericError(concat("'", first.tensor, "' of rank ", first.rank,
                            " differs from that of rank ", first.from, " after ", after,
                            ", although both should hold the same bits (", first.voters,
                            " ranks hold it", first.voters == 2 ? ", so either may be wrong" : "",
                            "). Memory or a device may have failed: test the hardware of rank ",
                            first.rank, ", and resume from a checkpoint before that"));
}

// The largest digest and the complement of the smallest one, in one reduction.
void ReplicaCheck::compare(const Compared& compared, const std::vector<int64_t>& digests,
                           std::vector<Finding>& findings) const {
  const auto sets = static_cast<int64_t>(compared.sets.size());
  if (sets == 0) return;
  const at::Tensor ends = at::full({sets, 2}, std::numeric_limits<int64_t>::min(), at::kLong);
  auto values = ends.accessor<int64_t, 2>();
  for (int64_t i = 0; i < sets; ++i) {
    const Replicas& set = compared.sets[static_cast<size_t>(i)];
    if (set.tensors.empty()) continue;
    const int64_t digest = combined(set.tensors, digests);
    values[i][0] = digest;
    values[i][1] = ~digest;
  }
  const at::Tensor largest = all_reduce(ends, compared.group, ReduceOp::kMax).wait();
  const auto reduced = largest.accessor<int64_t, 2>();
  for (int64_t i = 0; i < sets; ++i) {
    if (reduced[i][0] == ~reduced[i][1]) continue;
    findings.push_back(first_in(compared, static_cast<size_t>(i), digests));
  }
}

ReplicaCheck::Finding ReplicaCheck::first_in(const Compared& compared, size_t set,
                                             const std::vector<int64_t>& digests) const {
  const Replicas& replicas = compared.sets[set];
  std::vector<std::pair<std::string, int64_t>> own;
  std::vector<size_t> in_order = replicas.tensors;
  std::ranges::sort(in_order);
  for (const size_t index : in_order) own.emplace_back(tensors_[index].name, digests[index]);
  const auto ranks = all_gather_object(own, compared.group);
  // In the order of the first member.
  for (const auto& [name, digest] : ranks[static_cast<size_t>(replicas.members[0])]) {
    std::vector<int64_t> theirs;
    for (const int64_t member : replicas.members) {
      const auto& list = ranks[static_cast<size_t>(member)];
      theirs.push_back(
          std::ranges::find(list, name, &std::pair<std::string, int64_t>::first)->second);
    }
    const int64_t right = majority_of(theirs);
    const auto rank_of = [&](auto at) {
      return compared.group
          .global_rank(GroupRank{replicas.members[static_cast<size_t>(at - theirs.begin())]})
          .value;
    };
    const auto wrong = std::ranges::find_if(theirs, [&](int64_t one) { return one != right; });
    if (wrong == theirs.end()) continue;
    return {std::ssize(theirs), rank_of(wrong), rank_of(std::ranges::find(theirs, right)), name};
  }
  throw InternalError("the digests of replicas differ, but those of their tensors do not");
}

}  // namespace tessera
