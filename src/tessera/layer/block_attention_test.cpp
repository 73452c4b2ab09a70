#include "tessera/layer/block_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/layer/attention.h"
#include "tessera/layer/internal/block_kernel.h"
#include "tests/testkit/device.h"

namespace tessera {
namespace {

using Positions = std::vector<int64_t>;

Positions from(int64_t begin, int64_t end, int64_t step = 1) {
  Positions positions;
  for (int64_t p = begin; p < end; p += step) positions.push_back(p);
  return positions;
}

int64_t document_of(int64_t position, const DocumentLengths& documents) {
  int64_t end = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    end += documents[i];
    if (position < end) return static_cast<int64_t>(i);
  }
  return 0;
}

AttentionBlocks blocks_of(const Positions& queries, const Positions& keys,
                          const DocumentLengths& documents = {}) {
  AttentionBlocks blocks;
  add_causal_blocks(blocks, {0, 1}, queries, keys, documents);
  return blocks;
}

// How often each pair of a query and a key is in a block.
at::Tensor counts(const AttentionBlocks& blocks, int64_t queries, int64_t keys) {
  at::Tensor count = at::zeros({queries, keys}, at::kLong);
  for (const AttentionBlock& block : blocks) {
    const at::Tensor pairs = at::ones({block.queries.size(), block.keys.size()}, at::kLong);
    count.narrow(0, block.queries.begin, block.queries.size())
        .narrow(1, block.keys.begin, block.keys.size())
        .add_(block.causal ? pairs.tril() : pairs);
  }
  return count;
}

void expect_right_pairs(const Positions& queries, const Positions& keys,
                        const DocumentLengths& documents) {
  const auto q = static_cast<int64_t>(queries.size());
  const auto k = static_cast<int64_t>(keys.size());
  at::Tensor expected = at::zeros({q, k}, at::kLong);
  for (int64_t i = 0; i < q; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const int64_t query = queries[static_cast<size_t>(i)];
      const int64_t key = keys[static_cast<size_t>(j)];
      if (key <= query && document_of(key, documents) == document_of(query, documents)) {
        expected[i][j] = 1;
      }
    }
  }
  const AttentionBlocks blocks = blocks_of(queries, keys, documents);
  EXPECT_TRUE(counts(blocks, q, k).equal(expected));
  for (const AttentionBlock& block : blocks) {
    EXPECT_TRUE(!block.causal || block.queries.size() == block.keys.size());
  }
}

TEST(CausalBlocks, HoldEachPairOnce) {
  const std::vector<Positions> lists{from(0, 8),       from(8, 16),      from(0, 16, 2),
                                     from(1, 16, 2),   from(2, 16, 3),   {0, 1, 14, 15},
                                     {2, 3, 12, 13},   {4, 5, 10, 11},   {0},
                                     {3, 4, 7, 8, 15}, {0, 1, 2, 9, 10}, from(0, 16)};
  const std::vector<DocumentLengths> documents{{}, {16}, {5, 11}, {1, 1, 6, 8}, {8, 8}};
  for (const Positions& queries : lists) {
    for (const Positions& keys : lists) {
      for (const DocumentLengths& lengths : documents) expect_right_pairs(queries, keys, lengths);
    }
  }
}

TEST(CausalBlocks, AreFewForRegularLayouts) {
  const Positions first{0, 1, 6, 7};  // Head-tail on two ranks.
  const Positions second{2, 3, 4, 5};
  EXPECT_EQ(blocks_of(first, first), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, true}}));
  EXPECT_EQ(blocks_of(first, second), (AttentionBlocks{{{0, 1}, {2, 4}, {0, 4}, false}}));
  EXPECT_EQ(blocks_of(second, first), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 2}, false}}));
  const Positions even = from(0, 8, 2);  // Striped.
  const Positions odd = from(1, 8, 2);
  EXPECT_EQ(blocks_of(odd, even), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, true}}));
  EXPECT_EQ(blocks_of(even, odd), (AttentionBlocks{{{0, 1}, {1, 4}, {0, 3}, true}}));
  EXPECT_EQ(blocks_of(from(4, 8), from(0, 4)), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, false}}));
  EXPECT_TRUE(blocks_of(from(0, 4), from(4, 8)).empty());
}

struct Tensors {
  at::Tensor q, k, v;
};

Tensors inputs(at::ScalarType dtype) {
  at::manual_seed(1);
  const auto make = [&](int64_t heads) {
    return at::randn({2, 12, heads, 8}, at::kDouble).to(testkit::here(dtype)).requires_grad_();
  };
  return {make(4), make(2), make(2)};
}

// Each document alone.
at::Tensor by_document(const Tensors& in, const PackedRows& rows) {
  std::vector<at::Tensor> outputs;
  for (int64_t row = 0; row < in.q.size(0); ++row) {
    std::vector<at::Tensor> parts;
    int64_t begin = 0;
    for (const int64_t length : rows[static_cast<size_t>(row)]) {
      const auto part = [&](const at::Tensor& x) {
        return x.narrow(0, row, 1).narrow(1, begin, length);
      };
      parts.push_back(causal_attention(part(in.q), part(in.k), part(in.v)));
      begin += length;
    }
    outputs.push_back(at::cat(parts, 1));
  }
  return at::cat(outputs);
}

TEST(PackedAttention, EqualsThatOfEachDocument) {
  const PackedRows rows{{5, 7}, {1, 1, 10}};
  const Tensors in = inputs(at::kDouble);
  const at::Tensor packed =
      causal_attention(in.q, in.k, in.v, {.documents = std::make_shared<PackedRows>(rows)});
  const at::Tensor expected = by_document(in, rows);
  EXPECT_TRUE(at::allclose(packed, expected, 1e-12, 1e-12));
  const at::Tensor weights = at::randn_like(expected);
  const std::vector<at::Tensor> tensors{in.q, in.k, in.v};
  (expected * weights).sum().backward();
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& x : tensors)
    wanted.push_back(std::exchange(x.mutable_grad(), at::Tensor()));
  (packed * weights).sum().backward();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::allclose(tensors[i].grad(), wanted[i], 1e-12, 1e-12)) << i;
  }
}

TEST(PackedAttention, NanInPaddingDoesNotSpread) {
  const PackedRows rows{{9, 3}, {9, 3}};
  const auto attend = [&](double padding) {
    Tensors in = inputs(at::kFloat);
    for (at::Tensor* const x : {&in.q, &in.k, &in.v}) {
      *x = x->detach().clone();
      x->narrow(1, 9, 3).fill_(padding);
    }
    const Pass pass{.documents = std::make_shared<PackedRows>(rows)};
    return causal_attention(in.q, in.k, in.v, pass).narrow(1, 0, 9);
  };
  EXPECT_TRUE(attend(std::numeric_limits<double>::quiet_NaN()).equal(attend(0)));
}

// What a GPU uses for dtypes that its flash attention does not take.
TEST(BlockKernel, ProductsOfWholeMatricesEqualFlashAttention) {
  const auto heads = [](int64_t count, int64_t positions) {
    return at::randn({2, count, positions, 8}, at::kDouble);
  };
  const layer::detail::BlockKernel& plain = layer::detail::plain_block_kernel();
  for (const bool causal : {false, true}) {
    const AttentionInputs in{heads(4, 6), heads(2, causal ? 6 : 9), heads(2, causal ? 6 : 9)};
    const layer::detail::BlockKernel& flash = layer::detail::block_kernel_for(in.q);
    const auto expected = flash.forward(in, causal);
    const auto made = plain.forward(in, causal);
    EXPECT_TRUE(at::allclose(made.output, expected.output, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(made.log_sum_exp, expected.log_sum_exp, 1e-12, 1e-12));
    const at::Tensor gradient = at::randn_like(expected.output);
    const AttentionInputs wanted = flash.backward(gradient, in, expected, causal);
    const AttentionInputs got = plain.backward(gradient, in, expected, causal);
    EXPECT_TRUE(at::allclose(got.q, wanted.q, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(got.k, wanted.k, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(got.v, wanted.v, 1e-12, 1e-12));
  }
}

TEST(PackedRows, EndWhereTheNumberChanges) {
  EXPECT_EQ(packed_rows(at::tensor({0, 0, 1, 1, 7, 7}, at::kLong).view({2, 3})),
            (PackedRows{{2, 1}, {1, 2}}));
}

}  // namespace
}  // namespace tessera
