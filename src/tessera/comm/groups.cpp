#include "tessera/comm/groups.h"

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/state.h"

namespace tessera {

using namespace comm::detail;

Group on_lane(const Group& group, Lane lane) {
  const GroupState& state = group.state();
  state.world().check_open();
  // Keeps the world by keeping a group of it.
  const std::shared_ptr<WorldState> world(std::make_shared<Group>(group), &state.world());
  const GroupOptions options{
      .name = state.name(), .lane = lane, .backend = state.backend(), .timeout = state.timeout()};
  return Group(std::make_shared<GroupState>(world, state.ranks(), options));
}

void check_together(const Group& group, std::string_view what, const std::function<void()>& check) {
  if (group.size() == 1 || group.backend() == Backend::kFake) return check();
  std::exception_ptr error;
  try {
    check();
  } catch (...) {
    error = std::current_exception();
  }
  try {
    agree(error == nullptr, group, what);
  } catch (const ConfigError&) {
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tessera
