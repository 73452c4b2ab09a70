#include "tessera/train/train_balance.h"

#include "tessera/comm/collectives.h"

namespace tessera {

TrainBalance::TrainBalance(const std::optional<BalanceOptions>& options, const RealizedPlan& plan,
                           bool sequence, const Schedule& schedule)
    : groups_{plan.group("loss"), plan.group("pp")},
      in_one_pass_(schedule.pp() == 1 && schedule.num_stages() == 1 &&
                   schedule.microbatches() == 1) {
  if (options) routers_.emplace(*options);
  if (sequence) groups_.push_back(plan.group("tp"));
}

void TrainBalance::begin_step(double scale, at::Device device, const std::function<void()>& count) {
  if (!routers_) return;
  in_step_ = true;
  routers_->begin(scale, device);
  if (in_one_pass_ || !routers_->has_loss()) return;
  count();
  close();
}

void TrainBalance::before_backward() {
  if (in_step_ && in_one_pass_) close();
}

std::optional<BalanceResult> TrainBalance::end_step() {
  if (!routers_) return std::nullopt;
  in_step_ = false;
  close();
  return routers_->end();
}

void TrainBalance::close() {
  routers_->close([&](const at::Tensor& table) {
    for (const Group& group : groups_) all_reduce(table, group).wait();
  });
}

}  // namespace tessera
