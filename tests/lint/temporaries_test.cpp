// What refers to the inside of a value is a copy where the value is a temporary, or does not
// compile: `for (const Axis& axis : make_layout().axes())` must not read freed memory.
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "tessera/comm/world.h"
#include "tessera/data/token_data.h"
#include "tessera/draw/timeline.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/weight_files.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/mesh/realize.h"
#include "tessera/plan/plan.h"
#include "tessera/schedule/schedule.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/sharded_flat_tensor.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank_generator.h"

namespace tessera {
namespace {

/// Whether a result owns what it holds: it is no reference, pointer, span or text view.
template <class T>
struct Owns : std::bool_constant<!std::is_reference_v<T> && !std::is_pointer_v<T> &&
                                 !std::is_same_v<T, std::string_view>> {};
template <class T>
struct Owns<std::span<T>> : std::false_type {};

static_assert(!Owns<const Layout&>::value && !Owns<std::span<const int>>::value);

// OWNS(Layout, axes()): asked of a temporary, it owns its result.
#define OWNS(Type, ...) static_assert(Owns<decltype(std::declval<Type>().__VA_ARGS__)>::value)

OWNS(Group, name());
OWNS(Group, ranks());
OWNS(WorldHandle, launch());
OWNS(Checkpoint, folder());
OWNS(Checkpoint, index());
OWNS(Checkpoint, tensor(""));
OWNS(Axis, extents());
OWNS(Layout, axes());
OWNS(Layout, axis(""));
OWNS(RankGenerator, order());
OWNS(RankGenerator, layout());
OWNS(GroupFamily, layout());
OWNS(GroupFamily, axes());
OWNS(GroupFamily, selection());
OWNS(Plan, layout(""));
OWNS(Plan, specs());
OWNS(Plan, spec(""));
OWNS(Plan, variables());
OWNS(Schedule, name());
OWNS(Schedule, shape());
OWNS(Schedule, rows());
OWNS(Schedule, row(GroupRank{0}));
OWNS(Schedule, stage_to_rank());
OWNS(Action, tasks());
OWNS(Timeline, name());
OWNS(Timeline, blocks());
OWNS(Timeline, times_of(GroupRank{0}));
OWNS(Timeline, live_of(GroupRank{0}));
OWNS(DeviceMesh, layout());
OWNS(RealizedPlan, plan());
OWNS(RealizedPlan, groups());
OWNS(DTensor, mesh());
OWNS(DTensor, placements());
OWNS(DTensor, shape());
OWNS(ShardingSpec, unsharded_shape());
OWNS(ShardingSpec, unsharded_flattened_offsets());
OWNS(ShardingSpec, sharded_numels());
OWNS(ShardedFlatTensor, tensor());
OWNS(ShardedFlatTensor, sharding_spec());
OWNS(ShardedFlatTensor, process_group());
OWNS(ShardedFlatTensor, unsharded_flattened_offsets());
OWNS(ShardedFlatTensor, unsharded_shape());
OWNS(ShardedFlatTensor, sharded_data());
OWNS(SafetensorsFile, path());
OWNS(SafetensorsFile, tensors());
OWNS(SafetensorsFile, metadata());
OWNS(WeightFiles, files());
OWNS(WeightFiles, spec(""));
OWNS(TokenRun, path());
OWNS(TokenData, sources());
OWNS(TokenData, shares());

// Of these there is no copy to give: they are refused.
template <class T>
concept FindsInTemporary = requires(T value) { std::move(value).find(""); };
template <class T>
concept MapsInTemporary = requires(T value) { std::move(value).bytes(""); };
template <class T>
concept GroupsOfTemporary = requires(T value) { std::move(value).groups_of(GlobalRank{0}); };
template <class T>
concept BlocksOfTemporary = requires(T value) { std::move(value).blocks_of(GroupRank{0}); };
static_assert(!FindsInTemporary<Plan> && !FindsInTemporary<RealizedPlan> &&
              !FindsInTemporary<SafetensorsFile>);
static_assert(!MapsInTemporary<WeightFiles>);
static_assert(!GroupsOfTemporary<Plan>);
static_assert(!BlocksOfTemporary<Timeline>);

// The same when it runs, for the address sanitizer.
TEST(Temporaries, CanBeIteratedOver) {
  int64_t size = 1;
  for (const Axis& axis : Layout::row_major({{"dp", 2}, {"tp", 3}}).axes()) size *= axis.size();
  EXPECT_EQ(size, 6);
  for (const Axis& axis : RankGenerator(2, 1, 3, 1, 1, "tp-dp").layout().axes())
    size *= axis.size();
  EXPECT_EQ(size, 36);
}

}  // namespace
}  // namespace tessera
