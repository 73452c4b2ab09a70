#include "tessera/train/train_balance.h"

#include <ATen/ops/cat.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"

namespace tessera {
namespace {

// Over the ranks that have other tokens.
CapacityRanks ranks_of(const std::vector<Group>& groups) {
  return {.sum =
              [groups](at::Tensor table) {
                for (const Group& group : groups) table = all_reduce(table, group).wait();
                return table;
              },
          .gather =
              [groups](at::Tensor rows) {
                for (const Group& group : groups) {
                  rows = at::cat(all_gather_uneven(rows, group).wait());
                }
                return rows;
              }};
}

// Sets a flag, and resets it even if the pass fails.
class Counting {
 public:
  explicit Counting(bool& flag) : flag_(flag) { flag_ = true; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  ~Counting() { flag_ = false; }

 private:
  bool& flag_;
};

SequenceRanks sequence_ranks(const std::vector<Group>& groups) {
  SequenceRanks ranks{.sum = [groups](const at::Tensor& table) {
    for (const Group& group : groups) all_reduce(table, group).wait();
  }};
  for (const Group& group : groups) ranks.count *= group.size();
  return ranks;
}

}  // namespace

TrainBalance::TrainBalance(const std::optional<BalanceOptions>& options,
                           const CapacityOptions& capacity, const RealizedPlan& plan, bool sequence,
                           const Schedule& schedule)
    : groups_{plan.group("loss")},
      in_one_pass_(schedule.pp() == 1 && schedule.num_stages() == 1 &&
                   schedule.microbatches() == 1) {
  std::vector<Group> sharers{plan.group("cp")};  // Of a sequence.
  if (sequence) {
    groups_.push_back(plan.group("tp"));
    sharers.push_back(plan.group("tp"));
  }
  if (options) routers_.emplace(*options, sequence_ranks(sharers));
  if (capacity.factor != 0) {
    TSR_CHECK(options, "a capacity factor of ", capacity.factor,
              " limits experts, but the model has none; leave it out");
    capacity_.emplace(capacity, options->experts, ranks_of(groups_));
  }
  groups_.push_back(plan.group("pp"));
}

void TrainBalance::begin_step(double scale, at::Device device, const std::function<void()>& count) {
  if (!routers_) return;
  in_step_ = true;
  routers_->begin(scale, device);
  if (capacity_) capacity_->begin();
  if (in_one_pass_ || !(routers_->has_loss() || capacity_)) return;
  {
    const Counting counting(is_counting_);
    count();
  }
  close();
}

void TrainBalance::before_backward() {
  if (in_step_ && in_one_pass_) close();
}

std::optional<BalanceResult> TrainBalance::end_step() {
  if (!routers_) return std::nullopt;
  in_step_ = false;
  close();
  BalanceResult result = routers_->end();
  if (!capacity_) return result;
  capacity_->end();
  const auto pairs = result.counts[0].sum().item<int64_t>();
  const int64_t most =
      expert_capacity(capacity_->options().factor, pairs, routers_->options().experts);
  result.dropped = (result.counts - most).clamp_min(0);
  return result;
}

void TrainBalance::close() {
  routers_->close([&](const at::Tensor& table) {
    for (const Group& group : groups_) all_reduce(table, group).wait();
  });
}

}  // namespace tessera
