// Attention over ranks that split a sequence, compared with one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/window_attention.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/plan/train_plan.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::run_ranks;
using Tensors = std::vector<at::Tensor>;

struct Shape {
  int64_t rows = 2;
  int64_t length = 48;
  int64_t heads = 8;
  int64_t kv_heads = 2;
  int64_t size = 4;
};

// Queries, keys, values and the gradient of the output; the same on every rank.
Tensors inputs_of(const Shape& s) {
  at::manual_seed(5);
  const auto make = [&](int64_t heads) {
    return at::randn({s.rows, s.length, heads, s.size}, at::kDouble).to(testkit::device());
  };
  return {make(s.heads), make(s.kv_heads), make(s.kv_heads), make(s.heads)};
}

// The output and the gradients of queries, keys and values. A window of 0 is none.
Tensors run(const Tensors& inputs, const Pass& pass, int64_t window = 0) {
  Tensors leaves;
  for (size_t i = 0; i < 3; ++i) leaves.push_back(inputs[i].detach().clone().requires_grad_());
  const at::Tensor output = window_attention(leaves[0], leaves[1], leaves[2], window, pass);
  output.backward(inputs[3]);
  return {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

using SharedDocuments = std::shared_ptr<const PackedRows>;

ContextParallel context_of(const World& world, const ContextParallelOptions& options) {
  const Plan plan = train_plan(world.size(), {.cp = world.size()}, options.sizes);
  const RealizedPlan groups = realize(plan, world);
  if (options.sizes.empty()) return {{groups.group("cp")}, options};
  return {{groups.group("cp"), groups.group("cp_all_to_all"), groups.group("cp_ring")}, options};
}

Tensors run_split(const ContextParallel& context, const Tensors& inputs,
                  const SharedDocuments& documents, int64_t window = 0) {
  Tensors own;
  for (const at::Tensor& x : inputs) own.push_back(context.cut(x, documents.get()));
  return run(own, {.context = &context, .documents = documents}, window);
}

std::string text_of(const ContextParallelOptions& o, const SharedDocuments& documents) {
  return concat(o.type, " ", join(o.sizes, "·"), ", ", o.layout, ", stride ", o.head_stride,
                documents == nullptr ? "" : ", documents");
}

std::vector<ContextParallelOptions> exchanges(int64_t ranks, int64_t kv_heads) {
  std::vector<ContextParallelOptions> all{{.type = "ring"},
                                          {.type = "all-gather"},
                                          {.type = "all-gather", .head_stride = kv_heads},
                                          {.type = "ulysses"}};
  for (int64_t inner = 1; inner <= ranks; ++inner) {
    if (ranks % inner == 0)
      all.push_back({.type = "hierarchical", .sizes = {inner, ranks / inner}});
  }
  return all;
}

/// What each exchange and layout computes together.
struct Attention {
  SharedDocuments documents = nullptr;
  int64_t window = 0;
};

// Documents are of many lengths, none of which the number of ranks divides. The window cuts off
// keys of the own rank and all keys of others.
std::vector<Attention> attentions() {
  const auto documents =
      std::make_shared<const PackedRows>(PackedRows{{7, 1, 1, 22, 17}, {29, 19}});
  return {{}, {.documents = documents}, {.window = 7}, {.documents = documents, .window = 7}};
}

using Check = std::function<void(const ContextParallel&, const std::string& text)>;

// Calls `check` for every exchange and layout.
void for_each_way(const World& world, int64_t kv_heads, const Attention& attention,
                  const Check& check) {
  for (const ContextParallelOptions& exchange : exchanges(world.size(), kv_heads)) {
    for (const std::string& layout : context_layouts()) {
      ContextParallelOptions options = exchange;
      options.layout = layout;
      check(context_of(world, options),
            concat(text_of(options, attention.documents), ", window ", attention.window));
    }
  }
}

void check_all(const World& world, const Shape& shape) {
  const Tensors inputs = inputs_of(shape);
  for (const Attention& attention : attentions()) {
    const auto& [documents, window] = attention;
    const Tensors whole = run(inputs, {.documents = documents}, window);
    for_each_way(
        world, shape.kv_heads, attention,
        [&](const ContextParallel& context, const std::string& text) {
          const Tensors own = run_split(context, inputs, documents, window);
          for (size_t i = 0; i < own.size(); ++i) {
            RANK_EXPECT(at::allclose(own[i], context.cut(whole[i], documents.get()), 1e-10, 1e-10))
                << "tensor " << i << ", " << text;
          }
        });
  }
}

TEST(ContextAttention, OfTwoRanksEqualsThatOfOneProcess) {
  run_ranks(2, [](World& world) {
    check_all(world, {});
    check_all(world, {.heads = 2, .kv_heads = 1});
  });
}

TEST(ContextAttention, OfThreeRanksEqualsThatOfOneProcess) {
  run_ranks(3, [](World& world) { check_all(world, {.heads = 6, .kv_heads = 3}); });
}

TEST(ContextAttention, OfFourRanksEqualsThatOfOneProcess) {
  run_ranks(4, [](World& world) { check_all(world, {}); });
}

TEST(ContextAttention, OfEightRanksEqualsThatOfOneProcess) {
  run_ranks(8, [](World& world) { check_all(world, {}); });
}

double error_of(const at::Tensor& x, const at::Tensor& exact) {
  return ((x.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

// The error of all ranks together.
double error_of(const at::Tensor& x, const at::Tensor& exact, const World& world) {
  const at::Tensor squares =
      at::stack({(x.to(at::kDouble) - exact).square().sum(), exact.square().sum()});
  const at::Tensor sums = all_reduce(squares, world.group()).wait();
  return (sums[0] / sums[1]).sqrt().item<double>();
}

// Documents of long rows.
std::vector<Attention> long_attentions() {
  const auto documents = std::make_shared<const PackedRows>(PackedRows{{200, 1, 150, 161}});
  return {{}, {.documents = documents}, {.window = 100}, {.documents = documents, .window = 100}};
}

// Sums over the ranks are in float32, so that more ranks do not round more often: on a CPU the
// error is not above that of one process, beyond the noise of single roundings. The flash kernel of
// a GPU rounds the output of each block.
TEST(ContextAttention, InBfloat16IsAsExactAsOneProcess) {
  run_ranks(4, [](World& world) {
    const Tensors exact_inputs =
        inputs_of({.rows = 1, .length = 512, .heads = 4, .kv_heads = 4, .size = 32});
    Tensors rounded;
    Tensors exact;
    for (const at::Tensor& x : exact_inputs) {
      rounded.push_back(x.to(at::kBFloat16));
      exact.push_back(rounded.back().to(at::kDouble));
    }
    const double bound = testkit::device().is_cpu() ? 1.01 : 1.3;
    for (const Attention& attention : long_attentions()) {
      const auto& [documents, window] = attention;
      const Tensors expected = run(exact, {.documents = documents}, window);
      const Tensors alone = run(rounded, {.documents = documents}, window);
      for_each_way(
          world, 4, attention, [&](const ContextParallel& context, const std::string& text) {
            const Tensors own = run_split(context, rounded, documents, window);
            for (size_t i = 0; i < own.size(); ++i) {
              const double error =
                  error_of(own[i], context.cut(expected[i], documents.get()), world);
              const double error_alone = error_of(alone[i], expected[i]);
              RANK_EXPECT(error <= bound * error_alone)
                  << "tensor " << i << " of " << text << ": " << error << " > " << error_alone;
            }
          });
    }
  });
}

TEST(ContextAttention, NanInPaddingDoesNotSpread) {
  run_ranks(2, [](World& world) {
    const auto documents = std::make_shared<const PackedRows>(PackedRows{{41, 7}, {41, 7}});
    Tensors zeros = inputs_of({});
    Tensors nans;
    for (at::Tensor& x : zeros) {
      x.narrow(1, 41, 7).zero_();
      nans.push_back(x.clone());
      if (nans.size() < 4) nans.back().narrow(1, 41, 7).fill_(std::nan(""));
    }
    for (const ContextParallelOptions& options : exchanges(2, 2)) {
      const ContextParallel context = context_of(world, options);
      const at::Tensor text =
          context.cut(at::arange(48).lt(41).view({1, 48, 1, 1}).expand({2, 48, 1, 1}).clone());
      const Tensors clean = run_split(context, zeros, documents);
      const Tensors padded = run_split(context, nans, documents);
      for (size_t i = 0; i < clean.size(); ++i) {
        const auto kept = [&](const at::Tensor& x) { return x.where(text.to(x.device()), 0.0); };
        RANK_EXPECT(kept(clean[i]).equal(kept(padded[i]))) << text_of(options, documents);
      }
    }
  });
}

TEST(ContextAttention, LengthsThatDoNotDivideAreRefused) {
  run_ranks(2, [](World& world) {
    const ContextParallel context = context_of(world, {});
    RANK_EXPECT(testkit::message_of<ConfigError>([&] {
                  (void)context.cut(at::zeros({1, 6}));
                }).find("multiple of") != std::string::npos);
  });
}

}  // namespace
}  // namespace tessera
