#include "tessera/plan/context_parallel.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Options = ContextParallelOptions;

const ContextParallelShape kShape{.cp = 4, .sequence = 64, .heads = 8, .kv_heads = 4, .tp = 1};

std::string message(const Options& options, const ContextParallelShape& shape = kShape) {
  return testkit::message_of<ConfigError>([&] { check_context_parallel(options, shape); });
}

TEST(ContextParallelOptions, LegalOnesPass) {
  for (const std::string& type : context_parallel_types()) {
    Options options{.type = type};
    if (type == "hierarchical") options.sizes = {2, 2};
    EXPECT_NO_THROW(check_context_parallel(options, kShape)) << type;
  }
  EXPECT_NO_THROW(check_context_parallel({.type = "all-gather", .head_stride = 2}, kShape));
  EXPECT_NO_THROW(check_context_parallel({.layout = "striped"}, {.cp = 4, .sequence = 12}));
  const ContextParallelShape few{.cp = 4, .sequence = 64, .heads = 8, .kv_heads = 2};
  EXPECT_NO_THROW(check_context_parallel({.type = "ulysses"}, few)) << "ranks share heads";
}

TEST(ContextParallelOptions, NamesAreChecked) {
  EXPECT_EQ(message({.type = "ulises"}),
            "cp-type is 'ulises'; choose ring, all-gather, ulysses, hierarchical; did you mean "
            "'ulysses'?");
  EXPECT_NE(message({.layout = "zigzag"}).find("cp-layout is 'zigzag'; choose head-tail, "),
            std::string::npos);
}

TEST(ContextParallelOptions, TheSequenceMustDivide) {
  EXPECT_EQ(message({}, {.cp = 4, .sequence = 60}),
            "the sequence length 60 is not a multiple of 2·cp = 8; nearest legal lengths: 56, 64");
}

TEST(ContextParallelOptions, UlyssesDividesTheHeadsOfATensorParallelRank) {
  const ContextParallelShape shape{.cp = 4, .sequence = 64, .heads = 12, .kv_heads = 4, .tp = 2};
  EXPECT_EQ(message({.type = "ulysses"}, shape),
            "cp 4 does not fit 6 query heads and 2 key-value heads per tensor-parallel rank: it "
            "must divide the query heads, and divide the key-value heads or be a multiple of "
            "them; nearest legal degrees: 2, 6");
}

TEST(ContextParallelOptions, HierarchicalSizesMultiplyToCp) {
  EXPECT_EQ(message({.type = "hierarchical", .sizes = {2, 3}}),
            "cp-type hierarchical with cp 4 needs two sizes whose product is 4, but they are 2·3 = "
            "6; legal sizes: 1·4, 2·2, 4·1");
  EXPECT_NE(message({.type = "hierarchical"}).find("but they are not given; legal sizes: "),
            std::string::npos);
  EXPECT_NE(message({.type = "hierarchical", .sizes = {1, 2, 2}}).find("needs two sizes"),
            std::string::npos);
  EXPECT_NE(message({.type = "hierarchical", .sizes = {-2, -2}}).find("is -2"), std::string::npos);
  EXPECT_EQ(message({.sizes = {2, 2}}),
            "the sizes 2·2 need cp-type hierarchical, but it is ring; leave one out");
  const ContextParallelShape one_head{.cp = 4, .sequence = 64};
  EXPECT_NE(message({.type = "hierarchical", .sizes = {2, 2}}, one_head).find("the inner size 2"),
            std::string::npos);
}

TEST(ContextParallelOptions, TheHeadStrideDividesTheKeyValueHeads) {
  EXPECT_EQ(message({.type = "all-gather", .head_stride = 3}),
            "the head stride 3 does not divide the 4 key-value heads per tensor-parallel rank; "
            "legal strides: 1, 2, 4");
  EXPECT_NE(message({.type = "all-gather", .head_stride = 0}).find("stride 0"), std::string::npos);
}

}  // namespace
}  // namespace tessera
