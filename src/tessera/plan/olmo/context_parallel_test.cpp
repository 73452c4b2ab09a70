#include "tessera/plan/olmo/context_parallel.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::olmo {
namespace {

using Balancer = RingAttentionLoadBalancer;
using Positions = std::vector<int64_t>;
using Type = RingAttentionLoadBalancerType;
using testkit::message_of;

Balancer zig_zag(int64_t rank, int64_t ranks) {
  return {.type = Type::zig_zag, .cp_rank = rank, .cp_world_size = ranks};
}
Balancer llama3(int64_t rank, int64_t ranks) {
  return {.type = Type::llama3, .cp_rank = rank, .cp_world_size = ranks};
}
Balancer ulysses(int64_t rank, int64_t ranks) {
  return {.type = Type::ulysses, .cp_rank = rank, .cp_world_size = ranks};
}

TEST(OlmoLoadBalancer, ZigZagPadsTheSequence) {
  EXPECT_EQ(zig_zag(0, 2).batch_shard(7, {.pad = true}), (Positions{0, 1, 6, -1}));
  EXPECT_EQ(zig_zag(0, 2).batch_shard(8), (Positions{0, 1, 6, 7}));
  EXPECT_EQ(message_of<ConfigError>([] { zig_zag(0, 2).batch_shard(7); }),
            "the length 7 is not a multiple of 4 and no padding value is given; the next multiple "
            "is 8");
  EXPECT_NE(message_of<ConfigError>([] {
              zig_zag(0, 2).batch_shard(8, {.pad = true, .length_multiple = 6});
            }).find("length_multiple 6 is not a multiple of 4"),
            std::string::npos);
}

TEST(OlmoLoadBalancer, ZigZagPadsEachDocumentAndThenTheLocalLength) {
  const DocumentShard shard =
      zig_zag(0, 2).batch_shard_by_document({0, 5, 9}, {.pad = true, .length_multiple = 8});
  EXPECT_EQ(shard.positions, (Positions{0, 1, -1, -1, 5, 8, -1, -1}));
  EXPECT_EQ(shard.cu_doc_lens, (Positions{0, 4, 6, 8}));
  EXPECT_EQ(shard.max_doc_len, 4);
}

TEST(OlmoLoadBalancer, Llama3AppendsADocumentOfPadding) {
  const DocumentShard shard = llama3(1, 2).batch_shard_by_document({0, 5, 9}, {.pad = true});
  EXPECT_EQ(shard.positions, (Positions{5, 6, 7, 8, -1}));
  EXPECT_EQ(shard.cu_doc_lens_q, (Positions{0, 4, 5}));
  EXPECT_EQ(shard.cu_doc_lens_k, (Positions{0, 4, 5}));
  EXPECT_EQ(shard.local_k_slice, (Span{5, 10}));
  EXPECT_THROW(llama3(1, 2).batch_shard_by_document({0, 5, 9}), ConfigError);
  EXPECT_NE(message_of<ConfigError>([] { llama3(0, 2).batch_shard(8); }).find("documents only"),
            std::string::npos);
}

TEST(OlmoLoadBalancer, UlyssesKeepsTheDocuments) {
  const DocumentShard shard = ulysses(1, 2).batch_shard_by_document({0, 3, 7}, {.pad = true});
  EXPECT_EQ(shard.positions, (Positions{4, 5, 6, -1}));
  EXPECT_EQ(shard.cu_doc_lens, (Positions{0, 3, 7, 8}));
  EXPECT_EQ(shard.max_doc_len, 4);
  EXPECT_EQ(ulysses(1, 2).batch_shard(6), (Positions{3, 4, 5}));
}

TEST(OlmoLoadBalancer, NonsenseIsRefused) {
  const int64_t huge = int64_t{1} << 62;
  for (const Type type : {Type::zig_zag, Type::llama3, Type::ulysses}) {
    const Balancer balancer{.type = type, .cp_rank = 0, .cp_world_size = 2};
    for (const int64_t bad : {int64_t{0}, int64_t{-4}, huge}) {
      EXPECT_THROW(balancer.batch_shard(bad, {.pad = true}), ConfigError);
      EXPECT_THROW(balancer.batch_shard_by_document({0, bad}, {.pad = true}), ConfigError);
      EXPECT_THROW(balancer.batch_shard_by_document({0, 8}, {.pad = true, .length_multiple = bad}),
                   ConfigError);
      EXPECT_THROW((Balancer{type, 0, bad}.batch_shard_by_document({0, 8}, {.pad = true})),
                   ConfigError);
    }
    EXPECT_THROW(balancer.batch_shard_by_document({2, 6, 8}), ConfigError);
    EXPECT_THROW((Balancer{type, 2, 2}.batch_shard_by_document({0, 8})), ConfigError);
  }
}

TEST(OlmoContextParallelConfig, NamesTheExchangeAndTheLayout) {
  using Config = TransformerContextParallelConfig;
  EXPECT_EQ(context_parallel_options(Config::zig_zag(2)),
            (ContextParallelOptions{.type = "ring", .layout = "per-document"}));
  EXPECT_EQ(
      context_parallel_options(Config::llama3(2, 4)),
      (ContextParallelOptions{.type = "all-gather", .layout = "contiguous", .head_stride = 4}));
  EXPECT_EQ(context_parallel_options(Config::ulysses(2)),
            (ContextParallelOptions{.type = "ulysses", .layout = "contiguous"}));
  EXPECT_NE(message_of<ConfigError>([] { context_parallel_options(Config{}); }).find("neither"),
            std::string::npos);
  Config both = Config::ulysses(2);
  both.ring.emplace();
  EXPECT_NE(message_of<ConfigError>([&] { context_parallel_options(both); }).find("both"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::olmo
