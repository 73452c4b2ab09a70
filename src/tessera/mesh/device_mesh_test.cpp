#include "tessera/mesh/device_mesh.h"

#include <gtest/gtest.h>

#include <array>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

RankGroup ranks_of(const Group& group) {
  return {group.ranks().begin(), group.ranks().end()};
}

// pp=2, dp=2, tp=2 on 8 ranks, seen by rank 5: coordinate (1, 0, 1).
const Layout kCube = Layout::row_major({{"pp", 2}, {"dp", 2}, {"tp", 2}});

class Cube : public testing::Test {
 protected:
  World world = World::fake(GlobalRank{5}, 8);
  DeviceMesh mesh{world, kCube};
};

TEST_F(Cube, KnowsItsShape) {
  EXPECT_EQ(mesh.ndim(), 3);
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.shape(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(mesh.axis_names(), (AxisNames{"pp", "dp", "tp"}));
  EXPECT_EQ(mesh.size("dp"), 2);
  EXPECT_EQ(mesh.size(2), 2);
  EXPECT_EQ(mesh.layout(), kCube);
}

TEST_F(Cube, KnowsThisRank) {
  EXPECT_EQ(mesh.get_rank(), GlobalRank{5});
  EXPECT_TRUE(mesh.is_member());
  EXPECT_TRUE(mesh.contains(GlobalRank{7}));
  EXPECT_FALSE(mesh.contains(GlobalRank{8}));
  EXPECT_EQ(mesh.get_coordinate(), (Coordinate{1, 0, 1}));
  EXPECT_EQ(mesh.get_local_rank("pp"), GroupRank{1});
  EXPECT_EQ(mesh.get_local_rank(1), GroupRank{0});
}

TEST_F(Cube, HasOneGroupAnAxis) {
  EXPECT_EQ(ranks_of(mesh.get_group("pp")), to_ranks({1, 5}));
  EXPECT_EQ(ranks_of(mesh.get_group("dp")), to_ranks({5, 7}));
  EXPECT_EQ(ranks_of(mesh.get_group(2)), to_ranks({4, 5}));
  const auto all = mesh.get_all_groups();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1], mesh.get_group("dp"));
  EXPECT_EQ(mesh.get_group("tp").name(), "mesh_tp");
}

TEST_F(Cube, IsStillThereAfterItWasMovedFrom) {
  const DeviceMesh other = std::move(mesh);
  EXPECT_EQ(mesh, other);
  EXPECT_EQ(mesh.get_rank(), GlobalRank{5});
  EXPECT_EQ(mesh.get_group("tp"), other.get_group("tp"));
}

TEST_F(Cube, PrintsItself) {
  EXPECT_EQ(mesh.to_string(), "DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7");
  EXPECT_EQ(mesh.slice({"tp", "pp"}).to_string(), "DeviceMesh(tp=2, pp=2) over ranks 0,4,1,5");
}

TEST_F(Cube, TheOnlyAxisNeedsNoName) {
  const DeviceMesh tp = mesh.slice({"tp"});
  EXPECT_EQ(tp.get_group(), mesh.get_group("tp"));
  EXPECT_EQ(tp.get_local_rank(), GroupRank{1});
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.get_group(); }),
            "DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7 has 3 axes; name one of pp, dp, tp");
}

TEST_F(Cube, RefusesAxesThatItHasNot) {
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.get_group("ppp"); }),
            "DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7 has no axis 'ppp'; it has pp, dp, tp; did "
            "you mean 'pp'?");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.get_group(3); }),
            "DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7 has no axis 3; choose 0 to 2");
  EXPECT_THROW((void)mesh.size(-1), ConfigError);
  EXPECT_THROW((void)mesh.get_local_rank("expert"), ConfigError);
}

TEST_F(Cube, SlicesGoThroughThisRankAndShareItsGroups) {
  const DeviceMesh slice = mesh.slice({"pp", "tp"});
  EXPECT_EQ(slice.layout(), kCube.select({"pp", "tp"}, GlobalRank{5}));
  EXPECT_EQ(slice.get_coordinate(), (Coordinate{1, 1}));
  EXPECT_EQ(slice.get_group("pp"), mesh.get_group("pp"));
  EXPECT_EQ(&slice.get_group("tp").state(), &mesh.get_group("tp").state());
  EXPECT_FALSE(slice.contains(GlobalRank{7}));
}

TEST_F(Cube, SlicesInAnyOrder) {
  const DeviceMesh slice = mesh.slice({"tp", "pp"});
  EXPECT_EQ(slice.axis_names(), (AxisNames{"tp", "pp"}));
  EXPECT_EQ(slice.layout().ranks(), to_ranks({0, 4, 1, 5}));
  EXPECT_EQ(mesh.slice({"tp", "dp", "pp"}).slice({"pp", "dp", "tp"}), mesh);
}

TEST_F(Cube, AllAxesAreTheMeshItself) {
  EXPECT_EQ(mesh.slice({"pp", "dp", "tp"}), mesh);
}

TEST_F(Cube, RefusesBadSlices) {
  EXPECT_EQ(
      message_of<ConfigError>([&] { (void)mesh.slice({}); }),
      "slice of DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7 needs at least 1 axis, but got none");
  EXPECT_THROW((void)mesh.slice({"tp", "tp"}), ConfigError);
  EXPECT_THROW((void)mesh.slice({"cp"}), ConfigError);
  EXPECT_THROW((void)mesh.slice({"tp"}).slice({"dp"}), ConfigError);
}

TEST_F(Cube, FlattensToOneAxis) {
  const DeviceMesh flat = mesh.slice({"pp", "tp"}).flatten("model");
  EXPECT_EQ(flat.ndim(), 1);
  EXPECT_EQ(flat.axis_names(), AxisNames{"model"});
  EXPECT_EQ(ranks_of(flat.get_group()), to_ranks({0, 1, 4, 5}));
  EXPECT_EQ(flat.get_local_rank(), GroupRank{3});
  EXPECT_EQ(mesh.slice({"dp", "tp"}).flatten().axis_names(), AxisNames{"dp_tp"});
}

TEST_F(Cube, AFlattenedAxisCountsInTheOrderOfTheSlice) {
  const DeviceMesh flat = mesh.slice({"tp", "pp"}).flatten("model");
  EXPECT_EQ(ranks_of(flat.get_group()), to_ranks({0, 4, 1, 5}));
  EXPECT_EQ(flat.get_local_rank(), GroupRank{3});
}

TEST_F(Cube, TheParentKnowsFlattenedAxes) {
  const DeviceMesh flat = mesh.slice({"pp", "tp"}).flatten("model");
  EXPECT_EQ(mesh.get_group("model"), flat.get_group());
  EXPECT_EQ(mesh.size("model"), 4);
  EXPECT_EQ(mesh.get_local_rank("model"), GroupRank{3});
  EXPECT_EQ(mesh.slice({"model"}), flat);
  EXPECT_EQ(mesh.axis_names(), (AxisNames{"pp", "dp", "tp"}));
  const DeviceMesh both = mesh.slice({"dp", "model"});
  EXPECT_EQ(both.shape(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(both.layout(), kCube.flatten({"pp", "tp"}, "model").permute({"dp", "model"}));
}

TEST_F(Cube, SubMeshesKnowTheFlattenedAxesWithinThem) {
  (void)mesh.slice({"dp", "tp"}).flatten();
  EXPECT_EQ(mesh.slice({"tp", "dp"}).get_group("dp_tp"), mesh.get_group("dp_tp"));
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.slice({"pp", "tp"}).get_group("dp_tp"); }),
            "DeviceMesh(pp=2, tp=2) over ranks 0,1,4,5 has no axis 'dp_tp'; it has pp, tp");
  EXPECT_THROW((void)mesh.get_group("dp_tpp"), ConfigError);
  EXPECT_NE(message_of<ConfigError>([&] {
              (void)mesh.get_group("dp_tpp");
            }).find("did you mean 'dp_tp'?"),
            std::string::npos);
}

TEST_F(Cube, TheSameFlattenedTwiceIsTheSame) {
  const DeviceMesh flat = mesh.slice({"pp", "dp"}).flatten("x");
  const DeviceMesh again = mesh.slice({"pp", "dp"}).flatten("x");
  EXPECT_EQ(flat, again);
  EXPECT_EQ(&flat.get_group().state(), &again.get_group().state());
  EXPECT_EQ(flat.flatten("x"), flat);
  EXPECT_EQ(flat.flatten(), flat);
  EXPECT_EQ(mesh.slice({"tp"}).flatten("tp"), mesh.slice({"tp"}));
}

TEST_F(Cube, RefusesNamesThatMeanSomethingElse) {
  (void)mesh.slice({"pp", "dp"}).flatten("x");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.slice({"dp", "tp"}).flatten("x"); }),
            "DeviceMesh(dp=2, tp=2) over ranks 4-7 cannot be flattened into 'x', which was made "
            "from other axes: [x=4:2] from rank 1; choose another name");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.slice({"pp", "dp"}).flatten("tp"); }),
            "DeviceMesh(pp=2, dp=2) over ranks 1,3,5,7 cannot be flattened into 'tp', because its "
            "mesh has an axis of that name; choose another name");
  EXPECT_THROW((void)mesh.slice({"pp", "dp"}).flatten("dp"), ConfigError);
  EXPECT_THROW((void)mesh.slice({"tp"}).flatten("x"), ConfigError);
}

TEST_F(Cube, FlattenedAxesHaveOptionsOfTheirOwn) {
  const DeviceMesh pair = mesh.slice({"pp", "dp"});
  const DeviceMesh flat = pair.flatten("x", GroupOptions{.lane = Lane::kReduce});
  EXPECT_EQ(mesh.get_group("x").lane(), Lane::kReduce);
  EXPECT_EQ(pair.flatten("x"), flat);
  EXPECT_EQ(pair.flatten("x", GroupOptions{.lane = Lane::kReduce}), flat);
  EXPECT_EQ(message_of<ConfigError>([&] { (void)pair.flatten("x", GroupOptions{}); }),
            "DeviceMesh(pp=2, dp=2) over ranks 1,3,5,7 was flattened into 'x' with another lane or "
            "options; choose another name, or pass the same options");
}

TEST_F(Cube, RefusesOverlappingAxes) {
  (void)mesh.slice({"pp", "dp"}).flatten("x");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.slice({"x", "dp"}); }),
            "the axes x=4:2 and dp=2:2 overlap in their ranks; choose one of them");
  EXPECT_THROW((void)mesh.slice({"pp", "x"}), ConfigError);
}

TEST_F(Cube, SplitsAnAxis) {
  const DeviceMesh flat = mesh.slice({"dp", "tp"}).flatten("x");
  const DeviceMesh parts = flat.split("x", {{"a", 2}, {"b", 2}}, {{"a", {.lane = Lane::kP2p}}});
  EXPECT_EQ(parts.shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ranks_of(parts.get_group("a")), to_ranks({5, 7}));
  EXPECT_EQ(parts.get_group("a").lane(), Lane::kP2p);
  EXPECT_EQ(parts.get_group("b"), mesh.get_group("tp"));
  const DeviceMesh all = mesh.slice({"pp", "x"}).split(1, {{"a", 4}, {"one", 1}});
  EXPECT_EQ(all.axis_names(), (AxisNames{"pp", "a", "one"}));
  EXPECT_EQ(all.get_group("pp"), mesh.get_group("pp"));
  EXPECT_EQ(all.get_group("a"), mesh.get_group("x"));
  EXPECT_EQ(all.get_group("one").size(), 1);
}

TEST_F(Cube, RefusesBadSplits) {
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.split("tp", {{"a", 2}, {"b", 2}}); }),
            "axis 'tp' of size 2 cannot be split into parts whose product is 4; the product of the "
            "parts must be the size of the axis");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.split("tp", {}); }),
            "axis 'tp' must be split into at least 1 part, but got none");
  EXPECT_THROW((void)mesh.split("tp", {{"dp", 1}, {"b", 2}}), ConfigError);
  EXPECT_THROW((void)mesh.split("tpp", {{"a", 1}, {"b", 2}}), ConfigError);
  EXPECT_THROW((void)mesh.split(3, {{"a", 1}, {"b", 2}}), ConfigError);
  EXPECT_THROW((void)mesh.split("tp", {{"a", 1}, {"b", 2}}, {{"tp", {}}}), ConfigError);
  (void)mesh.slice({"pp", "dp"}).flatten("x");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.split("tp", {{"x", 1}, {"b", 2}}); }),
            "a part of axis 'tp' cannot be named 'x', because a flattened axis has that name; "
            "choose another name");
  EXPECT_EQ(message_of<ConfigError>([&] { (void)mesh.split("x", {{"a", 2}, {"b", 2}}); }),
            "'x' is a flattened axis, not an axis of DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7; "
            "slice it first");
}

TEST_F(Cube, Concatenates) {
  const DeviceMesh flat = mesh.slice({"pp", "tp"}).flatten("model");
  const std::array pieces{flat, mesh.slice({"dp"})};
  EXPECT_EQ(DeviceMesh::concatenate(pieces), mesh.slice({"model", "dp"}));
  const std::array reversed{mesh.slice({"tp"}), mesh.slice({"pp", "dp"})};
  EXPECT_EQ(DeviceMesh::concatenate(reversed), mesh.slice({"tp", "pp", "dp"}));
  const DeviceMesh cut = flat.split("model", {{"a", 2}, {"b", 2}});
  const std::array cut_pieces{cut.slice({"a"}), mesh.slice({"tp"})};
  EXPECT_EQ(DeviceMesh::concatenate(cut_pieces).layout().ranks(), to_ranks({0, 1, 4, 5}));
}

TEST_F(Cube, RefusesBadConcatenations) {
  const std::array overlap{mesh.slice({"pp", "tp"}), mesh.slice({"dp", "pp"})};
  EXPECT_THROW((void)DeviceMesh::concatenate(overlap), ConfigError);
  const std::array strangers{mesh.slice({"pp"}), DeviceMesh(world, kCube).slice({"tp"})};
  EXPECT_EQ(message_of<ConfigError>([&] { (void)DeviceMesh::concatenate(strangers); }),
            "DeviceMesh(pp=2) over ranks 1,5 and DeviceMesh(tp=2) over ranks 4,5 cannot be "
            "concatenated, because they have no common origin; slice both from one mesh");
  EXPECT_THROW((void)DeviceMesh::concatenate({}), ConfigError);
}

TEST_F(Cube, EqualityIsAboutAxesRanksAndOptions) {
  EXPECT_EQ(mesh, DeviceMesh(world, kCube));
  EXPECT_NE(mesh, DeviceMesh(world, kCube, {{"dp", {.lane = Lane::kReduce}}}));
  EXPECT_NE(mesh.slice({"dp"}), mesh.slice({"tp"}));
  const DeviceMesh tp = mesh.slice({"tp"});
  EXPECT_EQ(tp, DeviceMesh(world, Layout::from_ranks({{"tp", 2}}, to_ranks({4, 5}))));
  EXPECT_NE(tp, DeviceMesh(world, Layout::from_ranks({{"other", 2}}, to_ranks({4, 5}))));
}

TEST_F(Cube, OptionsAreGivenByAxis) {
  const DeviceMesh other(
      world, kCube,
      {{"dp", {.name = "data", .lane = Lane::kReduce}}, {"tp", {.lane = Lane::kGather}}});
  EXPECT_EQ(other.get_group("dp").lane(), Lane::kReduce);
  EXPECT_EQ(other.get_group("dp").name(), "data");
  EXPECT_NE(other.get_group("tp"), mesh.get_group("tp"));
  EXPECT_EQ(other.get_group("pp"), mesh.get_group("pp"));
  EXPECT_EQ(message_of<ConfigError>([&] { DeviceMesh(world, kCube, {{"ttp", {}}}); }),
            "got options for axis 'ttp', but the axes are pp, dp, tp; did you mean 'tp'?");
}

TEST(DeviceMesh, FromShapeAndNames) {
  const World world = World::fake(GlobalRank{5}, 8);
  const std::vector<int64_t> shape{2, 4};
  const DeviceMesh mesh = init_device_mesh(world, shape, {"dp", "tp"});
  EXPECT_EQ(mesh, DeviceMesh(world, Layout::row_major({{"dp", 2}, {"tp", 4}})));
  EXPECT_EQ(message_of<ConfigError>([&] { init_device_mesh(world, shape, {"dp"}); }),
            "a mesh of shape (2, 4) got 1 names (dp); pass one name per axis");
  EXPECT_THROW(init_device_mesh(world, shape, {"dp", "dp"}), ConfigError);
  EXPECT_THROW(init_device_mesh(world, shape, {"dp", ""}), ConfigError);
  EXPECT_THROW(init_device_mesh(world, {}, {}), ConfigError);
  EXPECT_THROW(init_device_mesh(world, std::vector<int64_t>{0}, {"dp"}), ConfigError);
}

TEST(DeviceMesh, RefusesMoreRanksThanTheWorldHas) {
  const World world = World::fake(GlobalRank{5}, 8);
  EXPECT_EQ(message_of<ConfigError>([&] { DeviceMesh(world, Layout::row_major({{"dp", 9}})); }),
            "a mesh over [dp=9:1] has 9 ranks up to rank 8, but the world has ranks 0 to 7; choose "
            "smaller axes or start more ranks");
  EXPECT_THROW(DeviceMesh(world, Layout::from_ranks({{"dp", 2}}, to_ranks({8, 0}))), ConfigError);
  EXPECT_THROW(DeviceMesh(world, Layout::first_fastest({{"dp", 4}}, GlobalRank{5})), ConfigError);
  EXPECT_THROW(Layout::from_ranks({{"dp", 2}, {"tp", 2}}, to_ranks({0, 1, 2, 1})), ConfigError);
}

// PyTorch sorts groups, so there a rank's group rank may differ from its index on the axis.
TEST(DeviceMesh, AnUnsortedRankListKeepsItsOrder) {
  const Layout layout = Layout::from_ranks({{"dp", 3}}, to_ranks({7, 5, 3}));
  for (const auto& [rank, index] : {std::pair{7, 0}, {5, 1}, {3, 2}}) {
    const World world = World::fake(GlobalRank{rank}, 8);
    const DeviceMesh mesh(world, layout);
    EXPECT_EQ(mesh.get_coordinate(), Coordinate{index});
    EXPECT_EQ(mesh.get_local_rank("dp"), GroupRank{index});
    EXPECT_EQ(mesh.get_group().rank(), GroupRank{index});
    EXPECT_EQ(ranks_of(mesh.get_group()), to_ranks({7, 5, 3}));
  }
}

TEST(DeviceMesh, RanksOutsideAreNoMembers) {
  const World world = World::fake(GlobalRank{6}, 8);
  const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}, {"tp", 2}}));
  EXPECT_FALSE(mesh.is_member());
  EXPECT_EQ(mesh.get_coordinate(), std::nullopt);
  EXPECT_EQ(mesh.shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(mesh.size("tp"), 2);
  EXPECT_EQ(message_of<StateError>([&] { (void)mesh.get_group("tp"); }),
            "rank 6 is not in DeviceMesh(dp=2, tp=2) over ranks 0-3; check is_member() before "
            "using its axes");
  EXPECT_THROW((void)mesh.slice({"tp"}), StateError);
  EXPECT_THROW((void)mesh.get_all_groups(), StateError);
  EXPECT_THROW((void)mesh.get_local_rank("tp"), StateError);
  EXPECT_THROW((void)DeviceMesh::concatenate(std::array{mesh}), StateError);
}

TEST(DeviceMesh, RanksOutsideMayTakePartInWhatMakesGroups) {
  const World world = World::fake(GlobalRank{6}, 8);
  const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}, {"tp", 2}}));
  const DeviceMesh flat = mesh.flatten("x");
  EXPECT_FALSE(flat.is_member());
  EXPECT_EQ(flat.shape(), std::vector<int64_t>{4});
  EXPECT_EQ(mesh.flatten("x"), flat);
  EXPECT_EQ(mesh.split("dp", {{"a", 2}, {"b", 1}}).shape(), (std::vector<int64_t>{2, 1, 2}));
}

TEST(DeviceMesh, FromAGroup) {
  const World world = World::fake(GlobalRank{5}, 8);
  const Group group = world.group(to_ranks({7, 5, 3}), {.lane = Lane::kGather});
  const DeviceMesh mesh = DeviceMesh::from_group(world, group, "dp");
  EXPECT_EQ(mesh.to_string(), "DeviceMesh(dp=3) over ranks 7,5,3");
  EXPECT_EQ(&mesh.get_group().state(), &group.state());
  EXPECT_EQ(mesh.get_local_rank(), GroupRank{1});
  EXPECT_FALSE(DeviceMesh::from_group(world, world.group(to_ranks({0, 1})), "dp").is_member());
  EXPECT_THROW(DeviceMesh::from_group(world, group, ""), ConfigError);
}

TEST(DeviceMesh, FromGroups) {
  const World world = World::fake(GlobalRank{5}, 8);
  const Layout layout = Layout::row_major({{"dp", 2}, {"tp", 4}});
  const Group dp = world.group(to_ranks({1, 5}), {.name = "a"});
  const Group tp = world.group(to_ranks({4, 5, 6, 7}), {.name = "b"});
  const DeviceMesh mesh = DeviceMesh::from_groups(world, layout, {dp, tp});
  EXPECT_EQ(mesh, DeviceMesh(world, layout));
  EXPECT_EQ(mesh.get_group("tp").name(), "b");
  EXPECT_EQ(message_of<ConfigError>([&] { DeviceMesh::from_groups(world, layout, {dp}); }),
            "got 1 groups for the 2 axes of [dp=2:4 tp=4:1]; pass one for each of dp, tp");
  EXPECT_EQ(message_of<ConfigError>([&] { DeviceMesh::from_groups(world, layout, {tp, dp}); }),
            "group b has ranks 4,5,6,7, but axis 'dp' of [dp=2:4 tp=4:1] has 1,5 through rank 5; "
            "pass each axis its own group, with its ranks in the mesh's order");
  const Group reversed = world.group(to_ranks({5, 1}));
  EXPECT_THROW(DeviceMesh::from_groups(world, layout, {reversed, tp}), ConfigError);
}

// An axis of size 1 needs no communicator, and an axis over all ranks has the world's.
TEST(DeviceMesh, AnAxisOverTheWorldIsTheWorldsGroup) {
  const World world = World::fake(GlobalRank{5}, 8);
  const DeviceMesh mesh(world, Layout::row_major({{"pp", 1}, {"dp", 8}, {"tp", 1}}));
  EXPECT_EQ(mesh.get_group("dp"), world.group());
  EXPECT_EQ(mesh.get_group("tp").size(), 1);
  EXPECT_EQ(mesh.get_coordinate(), (Coordinate{0, 5, 0}));
}

TEST(DeviceMesh, ActsAsAnyRankOfALargeWorld) {
  const World world = World::fake(GlobalRank{12'345}, 16'384);
  const DeviceMesh mesh(world, Layout::row_major({{"pp", 16}, {"dp", 128}, {"tp", 8}}));
  EXPECT_EQ(mesh.get_coordinate(), (Coordinate{12, 7, 1}));
  EXPECT_EQ(mesh.get_group("tp").ranks().front(), GlobalRank{12'344});
  const DeviceMesh model = mesh.slice({"pp", "tp"}).flatten("model");
  EXPECT_EQ(model.size(), 128);
  EXPECT_EQ(mesh.get_local_rank("model"), GroupRank{12 * 8 + 1});
  EXPECT_EQ(mesh.to_string(), "DeviceMesh(pp=16, dp=128, tp=8) over ranks 0-16383");
}

TEST(DeviceMesh, OutlivesAMoveOfItsWorldAndThrowsWhenItIsClosed) {
  World world = World::fake(GlobalRank{5}, 8);
  const DeviceMesh mesh(world, kCube);
  World moved = std::move(world);
  EXPECT_EQ(mesh.slice({"pp", "dp"}).flatten("x").size(), 4);
  moved.close();
  EXPECT_EQ(mesh.get_coordinate(), (Coordinate{1, 0, 1}));
  EXPECT_EQ(message_of<StateError>([&] { (void)mesh.slice({"dp", "tp"}).flatten("y"); }),
            "the world was closed; connect again before using its groups");
}

}  // namespace
}  // namespace tessera
