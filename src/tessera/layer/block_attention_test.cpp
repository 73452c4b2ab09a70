#include "tessera/layer/block_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/layer/attention.h"
#include "tessera/layer/internal/block_kernel.h"
#include "tessera/layer/window_attention.h"
#include "tests/testkit/device.h"

namespace tessera {
namespace {

using Positions = std::vector<int64_t>;
using enum BlockShape;

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
                          const CausalMask& mask = {}) {
  AttentionBlocks blocks;
  add_causal_blocks(blocks, {0, 1}, queries, keys, mask);
  return blocks;
}

bool holds(BlockShape shape, int64_t query, int64_t key) {
  return shape == kFull || (shape == kLower ? key <= query : key >= query);
}

using Counts = std::vector<std::vector<int>>;  // By query and key.

Counts no_counts(const Positions& queries, const Positions& keys) {
  return Counts(queries.size(), std::vector<int>(keys.size()));
}

// How often each pair of a query and a key is in a block.
void count(const AttentionBlock& block, Counts& counts) {
  EXPECT_TRUE(block.shape == kFull || block.queries.size() == block.keys.size());
  for (int64_t i = 0; i < block.queries.size(); ++i) {
    for (int64_t j = 0; j < block.keys.size(); ++j) {
      auto& pair = counts.at(static_cast<size_t>(block.queries.begin + i))
                       .at(static_cast<size_t>(block.keys.begin + j));
      if (holds(block.shape, i, j)) ++pair;
    }
  }
}

bool attends(int64_t query, int64_t key, const CausalMask& mask) {
  return key <= query && query - key < mask.window.value_or(query + 1) &&
         document_of(key, mask.documents) == document_of(query, mask.documents);
}

void expect_right_pairs(const Positions& queries, const Positions& keys, const CausalMask& mask) {
  Counts expected = no_counts(queries, keys);
  for (size_t i = 0; i < queries.size(); ++i) {
    for (size_t j = 0; j < keys.size(); ++j) {
      expected[i][j] = attends(queries[i], keys[j], mask) ? 1 : 0;
    }
  }
  Counts counts = no_counts(queries, keys);
  for (const AttentionBlock& block : blocks_of(queries, keys, mask)) count(block, counts);
  EXPECT_EQ(counts, expected) << "window " << mask.window.value_or(0);
}

TEST(CausalBlocks, HoldEachPairOnce) {
  const std::vector<Positions> lists{from(0, 8),       from(8, 16),      from(0, 16, 2),
                                     from(1, 16, 2),   from(2, 16, 3),   {0, 1, 14, 15},
                                     {2, 3, 12, 13},   {4, 5, 10, 11},   {0},
                                     {3, 4, 7, 8, 15}, {0, 1, 2, 9, 10}, from(0, 16)};
  const std::vector<DocumentLengths> documents{{}, {16}, {5, 11}, {1, 1, 6, 8}, {8, 8}};
  for (const Positions& queries : lists) {
    for (const Positions& keys : lists) {
      for (const DocumentLengths& lengths : documents) {
        expect_right_pairs(queries, keys, {lengths});
        for (const int64_t window : {1, 2, 3, 5, 8, 15, 16}) {
          expect_right_pairs(queries, keys, {lengths, window});
        }
      }
    }
  }
}

TEST(CausalBlocks, AreFewForRegularLayouts) {
  const Positions first{0, 1, 6, 7};  // Head-tail on two ranks.
  const Positions second{2, 3, 4, 5};
  EXPECT_EQ(blocks_of(first, first), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, kLower}}));
  EXPECT_EQ(blocks_of(first, second), (AttentionBlocks{{{0, 1}, {2, 4}, {0, 4}, kFull}}));
  EXPECT_EQ(blocks_of(second, first), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 2}, kFull}}));
  const Positions even = from(0, 8, 2);  // Striped.
  const Positions odd = from(1, 8, 2);
  EXPECT_EQ(blocks_of(odd, even), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, kLower}}));
  EXPECT_EQ(blocks_of(even, odd), (AttentionBlocks{{{0, 1}, {1, 4}, {0, 3}, kLower}}));
  EXPECT_EQ(blocks_of(from(4, 8), from(0, 4)), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, kFull}}));
  EXPECT_TRUE(blocks_of(from(0, 4), from(4, 8)).empty());
}

TEST(CausalBlocks, OfAWindowAreTwoTrianglesPerWindow) {
  const Positions all = from(0, 12);
  EXPECT_EQ(blocks_of(all, all, {{}, 4}), (AttentionBlocks{{{0, 1}, {0, 4}, {0, 4}, kLower},
                                                           {{0, 1}, {4, 7}, {1, 4}, kUpper},
                                                           {{0, 1}, {4, 8}, {4, 8}, kLower},
                                                           {{0, 1}, {8, 11}, {5, 8}, kUpper},
                                                           {{0, 1}, {8, 12}, {8, 12}, kLower}}));
  EXPECT_EQ(blocks_of(from(4, 8), from(0, 4), {{}, 4}),
            (AttentionBlocks{{{0, 1}, {0, 2}, {1, 3}, kUpper}, {{0, 1}, {0, 3}, {3, 4}, kFull}}))
      << "of another rank";
  EXPECT_TRUE(blocks_of(from(8, 12), from(0, 4), {{}, 4}).empty());
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

// Attention with a mask over whole rows.
at::Tensor masked(const Tensors& in, const PackedRows& rows, int64_t window) {
  const int64_t length = in.q.size(1);
  at::Tensor mask = at::zeros({2, 1, length, length}, at::kBool);
  auto shown = mask.accessor<bool, 4>();
  for (int64_t row = 0; row < 2; ++row) {
    const CausalMask visible{rows[static_cast<size_t>(row)], window};
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < length; ++j) shown[row][0][i][j] = attends(i, j, visible);
    }
  }
  const auto heads = [](const at::Tensor& x) { return x.transpose(1, 2); };
  return at::scaled_dot_product_attention(heads(in.q), heads(in.k), heads(in.v),
                                          mask.to(in.q.device()), 0, false, std::nullopt,
                                          /*enable_gqa=*/true)
      .transpose(1, 2);
}

std::vector<at::Tensor> gradients(const at::Tensor& output, const Tensors& in) {
  at::manual_seed(2);
  (output * at::randn(output.sizes(), at::kDouble).to(output.options())).sum().backward();
  std::vector<at::Tensor> made;
  for (const at::Tensor& x : {in.q, in.k, in.v}) {
    made.push_back(std::exchange(x.mutable_grad(), at::Tensor()));
  }
  return made;
}

TEST(WindowAttention, EqualsThatWithAMask) {
  const Tensors in = inputs(at::kDouble);
  const PackedRows packed{{5, 7}, {1, 1, 10}};
  for (const PackedRows& rows : {PackedRows{{12}, {12}}, packed}) {
    const auto documents = rows == packed ? std::make_shared<PackedRows>(rows) : nullptr;
    for (const int64_t window : {1, 2, 3, 5, 7, 11, 12, 20}) {
      const at::Tensor made = window_attention(in.q, in.k, in.v, window, {.documents = documents});
      const at::Tensor expected = masked(in, rows, window);
      EXPECT_TRUE(at::allclose(made, expected, 1e-12, 1e-12)) << window;
      const std::vector<at::Tensor> wanted = gradients(expected, in);
      const std::vector<at::Tensor> got = gradients(made, in);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(at::allclose(got[i], wanted[i], 1e-12, 1e-12)) << window << ", " << i;
      }
    }
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
