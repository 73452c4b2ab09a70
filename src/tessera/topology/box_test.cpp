#include "tessera/topology/box.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;
using Placements = std::vector<Placement>;

Box box_at(const Shape& global, const Shape& mesh, const Shape& at, const Placements& placements) {
  return compute_local_shape_and_global_offset(global, mesh, at, placements);
}

Shape sizes_of(auto rule, int64_t size, int64_t num_pieces) {
  Shape sizes;
  for (int64_t i = 0; i < num_pieces; ++i) sizes.push_back(rule(size, num_pieces, i).size());
  return sizes;
}

TEST(Chunking, ChunkGivesFullPiecesThenAShortOneThenNone) {
  EXPECT_EQ(sizes_of(chunk, 5, 4), (Shape{2, 2, 1, 0}));
  EXPECT_EQ(sizes_of(chunk, 9, 4), (Shape{3, 3, 3, 0}));
  EXPECT_EQ(sizes_of(chunk, 0, 2), (Shape{0, 0}));
  EXPECT_EQ(chunk(3, 8, 7), (Span{3, 3}));
}

TEST(Chunking, TensorSplitIsBalanced) {
  EXPECT_EQ(sizes_of(tensor_split, 5, 4), (Shape{2, 1, 1, 1}));
  EXPECT_EQ(sizes_of(tensor_split, 3, 5), (Shape{1, 1, 1, 0, 0}));
  EXPECT_EQ(tensor_split(7, 3, 1), (Span{3, 5}));
}

TEST(Chunking, SurvivesTheLargestSizes) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(chunk(most, 2, 1), (Span{most / 2 + 1, most}));
  EXPECT_EQ(chunk(1, most, most - 1), (Span{1, 1}));
  EXPECT_EQ(tensor_split(most, 2, 1), (Span{most / 2 + 1, most}));
}

TEST(Chunking, RefusesPiecesThatDoNotExist) {
  EXPECT_THROW(chunk(4, 0, 0), ConfigError);
  EXPECT_THROW(chunk(-1, 2, 0), ConfigError);
  EXPECT_THROW(tensor_split(4, 2, 2), ConfigError);
  EXPECT_THROW(tensor_split(4, 2, -1), ConfigError);
}

TEST(LocalShape, ShardedTwiceAlongOneDimension) {
  for (int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(box_at({8, 4}, {2, 4}, {rank / 4, rank % 4}, {Shard{0}, Shard{0}}),
              (Box{{1, 4}, {rank, 0}}));
  }
}

TEST(LocalShape, AnEmptyShardLiesAtTheEnd) {
  EXPECT_EQ(box_at({2}, {8}, {5}, {Shard{0}}), (Box{{0}, {2}}));
  EXPECT_EQ(box_at({6}, {2, 4}, {0, 3}, {Shard{0}, Shard{0}}), (Box{{0}, {6}}));
}

TEST(LocalShape, MissingPlacementsReplicate) {
  EXPECT_EQ(box_at({9, 2}, {2, 3}, {1, 2}, {Shard{1}}), (Box{{9, 1}, {0, 1}}));
  EXPECT_EQ(box_at({4}, {2}, {1}, {Partial{}}), (Box{{4}, {0}}));
  EXPECT_EQ(box_at({3, 5}, {8}, {6}, {Shard{-1}}), (Box{{3, 0}, {0, 5}}));
}

// Results of PyTorch 2.13 for the same shapes, meshes and placements.
TEST(LocalShape, StridedShardsAsInPyTorch) {
  const Placements strided{StridedShard{0, 3}, Shard{0}};
  EXPECT_EQ(box_at({11}, {2, 2}, {0, 0}, strided), (Box{{3}, {0}}));
  EXPECT_EQ(box_at({11}, {2, 2}, {0, 1}, strided), (Box{{3}, {5}}));
  EXPECT_EQ(box_at({11}, {2, 2}, {1, 0}, strided), (Box{{3}, {2}}));
  EXPECT_EQ(box_at({11}, {2, 2}, {1, 1}, strided), (Box{{2}, {7}}));
  EXPECT_EQ(box_at({5}, {4}, {2}, {StridedShard{0, 2}}), (Box{{1}, {2}}));
  EXPECT_EQ(box_at({5}, {4}, {3}, {StridedShard{0, 2}}), (Box{{0}, {5}}));
}

TEST(LocalBoxes, AStridedShardLiesInPieces) {
  const Shape global{8, 2};
  const Shape mesh{2};
  const Placements placements{StridedShard{0, 2}};
  EXPECT_EQ(local_boxes(global, mesh, Shape{1}, placements),
            (std::vector<Box>{{{2, 2}, {2, 0}}, {{2, 2}, {6, 0}}}));
}

TEST(LocalBoxes, ManyPiecesCostNoMoreThanTheirNumber) {
  const int64_t pieces = 1 << 18;
  const Shape global{2 * pieces};
  const Shape mesh{2, 2};
  const Placements twice{StridedShard{0, pieces / 2}, StridedShard{0, pieces / 4}};
  EXPECT_EQ(local_boxes(global, mesh, Shape{1, 1}, twice).size(), static_cast<size_t>(pieces / 4));
}

TEST(LocalBoxes, ScalarsAreOneBoxAndEmptyShardsNone) {
  const Shape mesh{2};
  EXPECT_EQ(local_boxes(Shape{}, mesh, Shape{1}, {}).size(), 1U);
  EXPECT_TRUE(local_boxes(Shape{1}, mesh, Shape{1}, Placements{Shard{0}}).empty());
}

TEST(Boxes, Intersect) {
  EXPECT_EQ(intersect({{4, 4}, {0, 0}}, {{4, 4}, {2, 3}}), (Box{{2, 1}, {2, 3}}));
  EXPECT_EQ(intersect({{4}, {0}}, {{4}, {4}}), std::nullopt);
  EXPECT_EQ(intersect({{0}, {2}}, {{4}, {0}}), std::nullopt) << "an empty box meets nothing";
  EXPECT_THROW(intersect({{4}, {0}}, {{4, 1}, {0, 0}}), ConfigError);
  EXPECT_THROW(intersect({{4}, {}}, {{4}, {0}}), ConfigError);
  EXPECT_THROW(intersect({{4}, {std::numeric_limits<int64_t>::max()}}, {{4}, {0}}), ConfigError);
  EXPECT_EQ((Box{{3, 4}, {0, 0}}).numel(), 12);
}

TEST(LocalShapeErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(
      testkit::message_of<ConfigError>([] { box_at({3, 5}, {2}, {0}, {Shard{2}}); }),
      "placement S(2) names dimension 2 of a tensor of 2 dimensions; choose one from -2 to 1");
  EXPECT_EQ(testkit::message_of<ConfigError>([] { box_at({}, {2}, {0}, {Shard{0}}); }),
            "placement S(0) names dimension 0 of a tensor of 0 dimensions; choose R, a scalar "
            "cannot be sharded");
  EXPECT_THROW(box_at({3}, {2}, {0}, {Shard{0}, Replicate{}}), ConfigError);
  EXPECT_THROW(box_at({3}, {2}, {2}, {Shard{0}}), ConfigError);
  EXPECT_THROW(box_at({3}, {2, 2}, {0}, {Shard{0}}), ConfigError);
  EXPECT_THROW(box_at({3}, {0}, {0}, {Shard{0}}), ConfigError);
  EXPECT_THROW(box_at({-3}, {2}, {0}, {Shard{0}}), ConfigError);
  EXPECT_THROW(box_at({3}, {2}, {0}, {StridedShard{0, 0}}), ConfigError);
}

TEST(Placements, Print) {
  EXPECT_EQ(to_string(Placement{Replicate{}}), "R");
  EXPECT_EQ(to_string(Placement{StridedShard{1, 4}}), "SS(1,4)");
  EXPECT_EQ(to_string(Placement{Partial{ReduceOp::kMax}}), "P(max)");
}

}  // namespace
}  // namespace tessera
