// Megatron-Core's own tests of rank arithmetic: RankGenerator against closed forms, and the
// enumerations of its grid class. Comments name the peer's cases.
#include <gtest/gtest.h>

#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::megatron {
namespace {

using Groups = std::vector<RankGroup>;

struct Cluster {
  int64_t nodes = 1;
  int64_t gpus = 8;
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;

  int64_t world() const { return nodes * gpus; }
  int64_t dp() const { return world() / (tp * pp * cp); }
  int64_t expert_dp() const { return world() / (tp * pp * ep); }
  int64_t stage() const { return world() / pp; }  // Ranks per stage.
};

RankGroup run_of(int64_t first, int64_t end, int64_t step = 1) {
  RankGroup ranks;
  for (int64_t rank = first; rank < end; rank += step) ranks.push_back(GlobalRank{rank});
  return ranks;
}

// `count` groups, the i-th from `begin(i)`, each of `size` ranks `step` apart.
template <class Begin>
Groups groups(int64_t count, int64_t size, int64_t step, Begin begin) {
  Groups all;
  for (int64_t i = 0; i < count; ++i) {
    all.push_back(run_of(begin(i), begin(i) + size * step, step));
  }
  return all;
}

// Ranks are laid out as [pp][dp][cp][tp], the last fastest.
Groups data(const Cluster& c) {
  const int64_t step = c.cp * c.tp;
  return groups(c.pp * step, c.dp(), step,
                [&](int64_t i) { return i / step * c.stage() + i % step; });
}

Groups data_context(const Cluster& c) {
  return groups(c.pp * c.tp, c.dp() * c.cp, c.tp,
                [&](int64_t i) { return i / c.tp * c.stage() + i % c.tp; });
}

Groups context(const Cluster& c) {
  return groups(c.pp * c.dp() * c.tp, c.cp, c.tp,
                [&](int64_t i) { return i / c.tp * c.tp * c.cp + i % c.tp; });
}

// The m-th rank of every data-context group.
Groups model(const Cluster& c) {
  const Groups lines = data_context(c);
  Groups all(lines.front().size());
  for (const RankGroup& line : lines) {
    for (size_t m = 0; m < line.size(); ++m) all[m].push_back(line[m]);
  }
  return all;
}

Groups blocks(const Cluster& c, int64_t size) {
  return groups(c.world() / size, size, 1, [&](int64_t i) { return i * size; });
}

Groups pipeline(const Cluster& c) {
  return groups(c.stage(), c.pp, c.stage(), [](int64_t i) { return i; });
}

// In each stage and for each cp index, the tensor-parallel blocks of all dp indices.
Groups tensor_data(const Cluster& c) {
  Groups all;
  for (int64_t stage = 0; stage < c.world(); stage += c.stage()) {
    for (int64_t j = 0; j < c.cp; ++j) {
      RankGroup& group = all.emplace_back();
      for (int64_t k = 0; k < c.dp(); ++k) {
        for (int64_t t = 0; t < c.tp; ++t)
          group.push_back(GlobalRank{stage + (k * c.cp + j) * c.tp + t});
      }
    }
  }
  return all;
}

// Expert ranks are laid out as [pp][dp][ep][tp].
Groups expert_data(const Cluster& c) {
  const int64_t step = c.ep * c.tp;
  return groups(c.pp * step, c.expert_dp(), step,
                [&](int64_t i) { return i / step * c.stage() + i % step; });
}

const std::vector<Cluster> kClusters{
    {1, 1, 1, 1, 1, 1},    {1, 8, 8, 1, 1, 1},    {1, 8, 2, 2, 1, 1},    {1, 8, 2, 4, 1, 1},
    {3, 8, 8, 3, 1, 1},    {4, 8, 2, 4, 1, 1},    {8, 8, 8, 8, 1, 1},    {8, 8, 2, 1, 1, 4},
    {8, 8, 2, 2, 2, 4},    {8, 8, 2, 1, 4, 8},    {8, 8, 2, 2, 2, 8},    {16, 8, 4, 8, 1, 1},
    {16, 8, 4, 8, 1, 4},   {16, 8, 4, 8, 4, 1},   {16, 8, 8, 8, 1, 1},   {16, 8, 4, 8, 1, 1},
    {16, 8, 8, 8, 1, 1},   {32, 8, 4, 8, 1, 1},   {32, 8, 8, 8, 1, 1},   {32, 8, 4, 8, 1, 4},
    {32, 8, 8, 8, 4, 1},   {64, 8, 4, 2, 8, 8},   {64, 8, 4, 8, 1, 1},   {64, 8, 8, 8, 1, 1},
    {96, 8, 4, 8, 1, 1},   {128, 8, 4, 2, 8, 8},  {128, 8, 4, 8, 1, 1},  {256, 8, 4, 8, 1, 1},
    {316, 8, 4, 8, 1, 1},  {384, 8, 4, 8, 1, 1},  {512, 8, 4, 8, 1, 1},  {768, 8, 4, 8, 1, 1},
    {1024, 8, 4, 8, 1, 1}, {1280, 8, 4, 8, 1, 1}, {1344, 8, 4, 8, 1, 1},
};

// rank_generator_for_tp_dp_pp
TEST(PeerRankGenerator, AgreesWithTheClosedForms) {
  for (const Cluster& c : kClusters) {
    SCOPED_TRACE(testing::Message() << c.world() << " ranks, tp " << c.tp << " pp " << c.pp
                                    << " cp " << c.cp << " ep " << c.ep);
    const RankGenerator decoder(c.tp, 1, c.dp(), c.pp, c.cp, "tp-cp-dp-pp");
    EXPECT_TRUE(decoder.get_ranks("dp") == data(c));
    EXPECT_TRUE(decoder.get_ranks("dp-cp") == data_context(c));
    EXPECT_TRUE(decoder.get_ranks("cp") == context(c));
    EXPECT_TRUE(decoder.get_ranks("tp-pp") == model(c));
    EXPECT_TRUE(decoder.get_ranks("tp") == blocks(c, c.tp));
    EXPECT_TRUE(decoder.get_ranks("pp") == pipeline(c));
    EXPECT_TRUE(decoder.get_ranks("tp-dp") == tensor_data(c));
    EXPECT_TRUE(decoder.get_ranks("tp-dp-cp") == blocks(c, c.stage()));
    const RankGenerator expert(c.tp, c.ep, c.expert_dp(), c.pp, 1, "tp-ep-dp-pp");
    EXPECT_TRUE(expert.get_ranks("tp-ep") == blocks(c, c.tp * c.ep));
    EXPECT_TRUE(expert.get_ranks("dp") == expert_data(c));
  }
}

// hyper_comm_grid: gen_rank_enum of one dimension, and of one of size 1
TEST(PeerGrid, AlongOneDimension) {
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(8, {2, 4}, {true, false}),
            (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(4, {1, 4}, {true, false}),
            (std::vector<Ranks>{{0}, {1}, {2}, {3}}));
}

// hyper_comm_grid: gen_rank_enum with an offset
TEST(PeerGrid, WithAnOffset) {
  EXPECT_EQ(RankGenerator(2, 1, 2, 1, 1, "tp-dp", 4).get_ranks("tp"),
            (Groups{to_ranks({4, 5}), to_ranks({6, 7})}));
}

// hyper_comm_grid: create_pg over two dimensions, in their own order
TEST(PeerGrid, AlongTwoDimensions) {
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(8, {2, 2, 2}, {true, true, false}),
            (std::vector<Ranks>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

// hyper_comm_grid: complex_grid
TEST(PeerGrid, OfFourDimensions) {
  const RankGenerator grid(2, 1, 5, 4, 3, "tp-cp-pp-dp");
  const Groups data = grid.get_ranks("dp");
  EXPECT_EQ(data.size(), 24U);
  EXPECT_EQ(data[1], to_ranks({1, 25, 49, 73, 97}));
}

// hyper_comm_grid: rank_enumeration_correctness
TEST(PeerGrid, NeighboursLieCloseAndOthersFar) {
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(8, {2, 2, 2}, {true, false, false}),
            (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(8, {2, 2, 2}, {false, false, true}),
            (std::vector<Ranks>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

}  // namespace
}  // namespace tessera::megatron
