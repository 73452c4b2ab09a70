#include "tessera/comm/group.h"

#include <algorithm>
#include <ostream>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/state.h"

namespace tessera {

using namespace comm::detail;

const char* to_string(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kGloo:
      return "gloo";
    case Backend::kNccl:
      return "nccl";
    case Backend::kFake:
      return "fake";
  }
  return "?";
}

Group::Group(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}

const std::string& Group::name() const& {
  return state_->name();
}
std::string Group::name() && {
  return state_->name();
}
int64_t Group::size() const {
  return static_cast<int64_t>(state_->ranks().size());
}
const RankGroup& Group::ranks() const& {
  return state_->ranks();
}
RankGroup Group::ranks() && {
  return state_->ranks();
}
bool Group::is_member() const {
  return state_->rank().has_value();
}

GroupRank Group::rank() const {
  if (!is_member()) {
    throw StateError(
        concat("this process is not in group ", name(), "; check is_member() before using it"));
  }
  return *state_->rank();
}

GlobalRank Group::global_rank(GroupRank rank) const {
  TSR_CHECK(0 <= rank.value && rank.value < size(), "group ", name(), " has no rank ", rank,
            "; its ranks are 0 to ", size() - 1);
  return state_->ranks()[static_cast<size_t>(rank.value)];
}

std::optional<GroupRank> Group::group_rank(GlobalRank rank) const {
  const auto at = std::ranges::find(state_->ranks(), rank);
  if (at == state_->ranks().end()) return std::nullopt;
  return GroupRank{at - state_->ranks().begin()};
}

Lane Group::lane() const {
  return state_->lane();
}
Backend Group::backend() const {
  return state_->backend();
}
c10::Device Group::device() const {
  return backend() == Backend::kNccl ? state_->world().device : c10::Device(c10::kCPU);
}
bool Group::takes(c10::DeviceType device) const {
  return backend() == Backend::kFake || device == c10::kCPU || device == c10::kCUDA;
}
std::chrono::milliseconds Group::timeout() const {
  return state_->timeout();
}
void Group::set_timeout(std::chrono::milliseconds timeout) const {
  state_->set_timeout(timeout);
}

bool operator==(const Group& a, const Group& b) {
  return a.state_->key() == b.state_->key();
}

std::ostream& operator<<(std::ostream& out, const Group& group) {
  return out << group.name() << ": " << join(group.ranks(), " ");
}

GroupRank Member::in(const Group& group) const {
  if (const auto* rank = std::get_if<GroupRank>(&rank_)) {
    (void)group.global_rank(*rank);  // Checks that it exists.
    return *rank;
  }
  const auto rank = std::get<GlobalRank>(rank_);
  const auto found = group.group_rank(rank);
  TSR_CHECK(found, "global rank ", rank, " is not in group ", group.name(), " of the ranks ",
            join(group.ranks(), " "), "; choose one of them, or write GroupRank{", rank,
            "} for a rank in the group");
  return *found;
}

}  // namespace tessera
