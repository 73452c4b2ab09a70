// What gradients of replicas become in every case but the plain one, and what is refused, alike on
// all ranks.
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/objects.h"
#include "tessera/layer/linear.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::GlobalBatch;
using testkit::gradient_difference;
using testkit::here;
using testkit::largest_difference;
using testkit::random_tensor;
using testkit::Replica;
using testkit::run_ranks;

constexpr double kExact = 1e-12;
const std::vector<int64_t> kBucketSizes{1, 500, int64_t{1} << 30};

uint64_t rank_of(const World& world) {
  return static_cast<uint64_t>(world.rank().value);
}

at::Tensor rows_of(const World& world, uint64_t step) {
  return GlobalBatch(world, at::kDouble, false, step).mine;
}
at::Tensor all_rows(const World& world, uint64_t step) {
  return GlobalBatch(world, at::kDouble, false, step).all;
}

/// How many operations were started on the reduce lane so far.
uint64_t num_operations(const Ddp& ddp) {
  return ddp.group().state().communicator()->sequence();
}

/// The message with which all ranks refuse alike; "" where they do not.
template <class Exception>
std::string common_refusal(const World& world, const std::function<void()>& body) {
  std::string said;
  try {
    body();
  } catch (const Exception& error) {
    said = error.what();
  }
  const auto all = all_gather_object(said, world.group());
  for (const std::string& other : all) {
    if (other != said) return "";
  }
  return said;
}

// ---- Which gradients are added up

TEST(DdpGradients, PassesUnderNoSyncAreReducedByTheNextOne) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica whole(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 500});
    for (int round = 0; round < 3; ++round) {  // The first one makes the buckets.
      {
        const auto alone = ddp.no_sync();
        const uint64_t before = num_operations(ddp);
        ours.loss(rows_of(world, 0)).backward();
        ours.loss(rows_of(world, 1)).backward();
        RANK_EXPECT(num_operations(ddp) == before) << "nothing is sent";
      }
      ours.loss(rows_of(world, 2)).backward();
      for (uint64_t step = 0; step < 3; ++step) whole.loss(all_rows(world, step)).backward();
      RANK_EXPECT(gradient_difference(ours, whole) < kExact) << round;
      if (round > 0) continue;  // Then onto gradients that are views already.
      ours.zero_grad();
      whole.zero_grad();
    }
  });
}

TEST(DdpGradients, TwoReducedPassesAddUp) {
  run_ranks(3, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica whole(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 500});
    for (uint64_t step = 0; step < 4; ++step) {
      ours.loss(rows_of(world, step)).backward();
      whole.loss(all_rows(world, step)).backward();
      RANK_EXPECT(gradient_difference(ours, whole) < kExact) << step;
    }
  });
}

// One pass gives the first layer a gradient, the next one the second.
TEST(DdpGradients, PassesOverPartsOfTheModelAddUp) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world), 2);
    const Replica whole(at::kDouble, 0, 2);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 1});
    for (int round = 0; round < 2; ++round) {
      for (size_t layer = 0; layer < 2; ++layer) {
        ours.layer(layer, rows_of(world, layer)).square().mean().backward();
        whole.layer(layer, all_rows(world, layer)).square().mean().backward();
      }
      RANK_EXPECT(gradient_difference(ours, whole) < kExact);
      ours.zero_grad();
      whole.zero_grad();
    }
  });
}

struct Branches {
  NamedParameters parameters;

  Branches() {
    for (const char* name : {"common", "first", "others", "nobody"}) {
      parameters.push_back({name, at::ones({3}, here(at::kDouble)).requires_grad_()});
    }
  }
  // Rank 0 goes one way, the others another; in the next step the other way round.
  at::Tensor loss(int64_t rank, int step) const {
    const size_t branch = (rank == 0) == (step % 2 == 0) ? 1 : 2;
    const double factor = static_cast<double>(rank + 1);
    return (parameters[0].tensor * factor + parameters[branch].tensor * factor).sum();
  }
};

void use_branches(const World& world, int64_t bucket_bytes) {
  const Branches model;
  const Ddp ddp({model.parameters}, world.group(), {.bucket_bytes = bucket_bytes});
  const double size = static_cast<double>(world.size());
  const double all = size * (size + 1) / 2;
  for (int step = 0; step < 4; ++step) {
    model.loss(world.rank().value, step).backward();
    const double of_first = step % 2 == 0 ? 1 : all - 1;
    const std::vector<double> sums{all, of_first, all - of_first};
    for (size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor& gradient = model.parameters[i].tensor.grad();
      RANK_EXPECT(gradient.defined()) << i;
      RANK_EXPECT(largest_difference(gradient, at::full({3}, sums[i] / size, here(at::kDouble))) <
                  kExact)
          << model.parameters[i].name << " in step " << step << ": " << gradient;
    }
    RANK_EXPECT(!model.parameters[3].tensor.grad().defined()) << "nobody has a gradient";
    for (const auto& [name, tensor] : model.parameters) tensor.mutable_grad().reset();
  }
}

TEST(DdpGradients, ParametersThatARankDoesNotUseCountAsZeros) {
  run_ranks(3, [](World& world) {
    for (const int64_t bucket_bytes : kBucketSizes) use_branches(world, bucket_bytes);
  });
}

TEST(DdpGradients, ARankWithoutRowsReducesAlone) {
  run_ranks(3, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica whole(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 500});
    for (uint64_t step = 0; step < 3; ++step) {
      const bool idle = rank_of(world) == step;  // Rank 0 in the first pass, which shows the order.
      ddp.set_share(idle ? 0 : 0.5);
      if (idle) {
        ddp.reduce();
      } else {
        ours.loss(rows_of(world, step)).backward();
      }
      const at::Tensor rows = all_rows(world, step);
      at::Tensor loss = at::zeros({}, here(at::kDouble));
      for (int64_t rank = 0; rank < 3; ++rank) {
        if (static_cast<uint64_t>(rank) != step)
          loss = loss + whole.loss(rows.narrow(0, 2 * rank, 2)) / 2;
      }
      loss.backward();
      RANK_EXPECT(gradient_difference(ours, whole) < kExact) << step;
      ours.zero_grad();
      whole.zero_grad();
    }
  });
}

TEST(DdpGradients, ATensorWithTwoNamesIsReducedOnce) {
  run_ranks(2, [](World& world) {
    const at::Tensor weight = random_tensor({4, 4}, at::kDouble, 7).requires_grad_();
    const at::Tensor other = random_tensor({4}, at::kDouble, 8).requires_grad_();
    const Ddp ddp({{{"embedding", weight}, {"bias", other}, {"head", weight}}}, world.group());
    const double factor = static_cast<double>(world.rank().value + 1);
    for (int step = 0; step < 2; ++step) {
      ((weight.mm(weight)).sum() * factor + other.sum()).backward();
      const at::Tensor column = weight.detach().sum(0);
      const at::Tensor row = weight.detach().sum(1);
      const at::Tensor once = row.unsqueeze(0).expand({4, 4}) + column.unsqueeze(1).expand({4, 4});
      RANK_EXPECT(largest_difference(weight.grad(), once.mul(1.5)) < kExact) << step;
      weight.mutable_grad().reset();
    }
    std::multiset<std::string> names;
    for (const auto& bucket : ddp.buckets()) names.insert(bucket.begin(), bucket.end());
    RANK_EXPECT(names == std::multiset<std::string>{"bias", "embedding"});
  });
}

at::Tensor deferred_loss(const Replica& replica, const at::Tensor& rows,
                         const WeightGradients& later) {
  at::Tensor x = rows;
  for (size_t i = 0; i < replica.parameters.size(); i += 2) {
    x = linear(x, replica.parameters[i].tensor, replica.parameters[i + 1].tensor, &later).tanh();
  }
  return x.square().mean();
}

TEST(DdpGradients, DeferredWeightGradientsAreReducedWhenAskedFor) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica whole(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 500});
    const auto by_hand = ddp.no_sync();
    for (uint64_t step = 0; step < 3; ++step) {
      const WeightGradients later;
      for (uint64_t microbatch = 0; microbatch < 2; ++microbatch) {
        deferred_loss(ours, rows_of(world, 2 * step + microbatch), later).backward();
        whole.loss(all_rows(world, 2 * step + microbatch)).backward();
      }
      later.run();
      ddp.start_reduce();
      ddp.finish_reduce();
      RANK_EXPECT(gradient_difference(ours, whole) < kExact) << step;
      for (const auto& [name, tensor] : ours.parameters) tensor.grad().zero_();  // Views remain.
      whole.zero_grad();
    }
  });
}

// The second pass of a recomputed part runs inside a node of the first.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Replica* replica, int64_t layer) {
    context->save_for_backward({x});
    context->saved_data["replica"] = reinterpret_cast<int64_t>(replica);
    context->saved_data["layer"] = layer;
    const at::NoGradGuard no_grad;
    return replica->layer(static_cast<size_t>(layer), x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* const replica =
        reinterpret_cast<const Replica*>(context->saved_data["replica"].toInt());
    const auto layer = static_cast<size_t>(context->saved_data["layer"].toInt());
    const at::AutoGradMode with_grad(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({replica->layer(layer, x)}, {gradients[0]});
    return {x.grad(), {}, {}};
  }
};

TEST(DdpGradients, PassesInsideOfPassesAreReducedOnce) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica whole(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 1});
    for (uint64_t step = 0; step < 3; ++step) {
      const uint64_t before = num_operations(ddp);
      at::Tensor x = rows_of(world, step).clone().requires_grad_();
      for (int64_t layer = 0; layer < 3; ++layer) x = Recomputed::apply(x, &ours, layer);
      x.square().mean().backward();
      whole.loss(all_rows(world, step)).backward();
      RANK_EXPECT(gradient_difference(ours, whole) < kExact) << step;
      const uint64_t num_agreements = step == 0 ? 1 : 0;
      RANK_EXPECT(num_operations(ddp) - before == ddp.buckets().size() + num_agreements) << step;
      ours.zero_grad();
      whole.zero_grad();
    }
  });
}

// ---- How they travel

// What the others have found is sent while this rank still computes: shown by the order of events.
TEST(DdpBuckets, TheFirstIsSentBeforeTheLastGradientIsThere) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 1});
    ours.loss(rows_of(world, 0)).backward();
    const uint64_t before = num_operations(ddp);
    uint64_t before_first_layer = 0;
    const at::Tensor hidden = ours.layer(0, rows_of(world, 1));
    hidden.register_hook([&](const at::Tensor&) { before_first_layer = num_operations(ddp); });
    ours.layer(2, ours.layer(1, hidden)).square().mean().backward();
    RANK_EXPECT(before_first_layer - before == 4) << "weights and biases of two layers";
    RANK_EXPECT(num_operations(ddp) - before == 6);
  });
}

TEST(DdpBuckets, TheirOrderIsThatOfRankZero) {
  run_ranks(3, [](World& world) {
    // Other ranks use the layers in another order.
    const Replica ours(at::kDouble, rank_of(world));
    const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = 500});
    RANK_EXPECT(ddp.buckets().empty());
    const std::vector<size_t> order =
        rank_of(world) == 0 ? std::vector<size_t>{2, 0, 1} : std::vector<size_t>{0, 1, 2};
    at::Tensor x = rows_of(world, 0);
    for (const size_t layer : order) x = ours.layer(layer, x);
    x.sum().backward();
    const auto all = all_gather_object(ddp.buckets(), world.group());
    RANK_EXPECT(all[0] == all[1] && all[1] == all[2]);
    std::vector<std::string> names;
    for (const auto& bucket : ddp.buckets())
      names.insert(names.end(), bucket.begin(), bucket.end());
    RANK_EXPECT(names.size() == 6U);
    RANK_EXPECT(names[0].starts_with("layer1") && names[2].starts_with("layer0") &&
                names[4].starts_with("layer2"))
        << join(names, " ");
  });
}

TEST(DdpBuckets, GradientsAreViewsIntoThem) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Ddp ddp({ours.parameters}, world.group());
    std::set<const void*> storages;
    for (uint64_t step = 0; step < 3; ++step) {
      ours.zero_grad();
      ours.loss(rows_of(world, step)).backward();
      for (const auto& [name, tensor] : ours.parameters) {
        storages.insert(tensor.grad().storage().data());
      }
    }
    RANK_EXPECT(ddp.buckets().size() == 1U && storages.size() == 1U) << storages.size();
  });
}

at::Tensor transposed_weight() {
  return random_tensor({5, 3}, at::kDouble, 3).t().requires_grad_();
}

TEST(DdpBuckets, GradientsLieLikeTheirParameters) {
  run_ranks(2, [](World& world) {
    const at::Tensor weight = transposed_weight();
    const Ddp ddp({{{"weight", weight}}}, world.group());
    const double factor = static_cast<double>(world.rank().value + 1);
    for (int step = 0; step < 2; ++step) {
      weight.square().sum().mul(factor).backward();
      RANK_EXPECT(weight.grad().strides() == weight.strides());
      RANK_EXPECT(largest_difference(weight.grad(), weight.detach().mul(3)) < kExact) << step;
      weight.mutable_grad().reset();
    }
  });
}

// Whole numbers of eight bits: four of them add up exactly in fp32 and not in bf16.
at::Tensor eight_bits(uint64_t seed) {
  return random_tensor({64}, at::kFloat, seed).mul(100).round().clamp(-255, 255);
}

TEST(DdpBuckets, SmallDtypesCanBeSummedInALargerOne) {
  run_ranks(4, [](World& world) {
    const at::Tensor weight = at::ones({64}, here(at::kBFloat16)).requires_grad_();
    const Ddp ddp({{{"weight", weight}}}, world.group(), {.reduce_dtype = at::kFloat});
    for (uint64_t step = 0; step < 3; ++step) {
      at::Tensor exact = at::zeros({64}, here());
      at::Tensor coarse = at::zeros({64}, here(at::kBFloat16));
      for (uint64_t rank = 0; rank < 4; ++rank) {
        exact += eight_bits(10 * step + rank);
        coarse += eight_bits(10 * step + rank).to(at::kBFloat16);
      }
      (weight * eight_bits(10 * step + rank_of(world)).to(at::kBFloat16)).sum().backward();
      RANK_EXPECT(weight.grad().scalar_type() == at::kBFloat16);
      RANK_EXPECT(weight.grad().equal(exact.div(4).to(at::kBFloat16))) << step;
      RANK_EXPECT(!weight.grad().equal(coarse.div(4))) << "the test shows nothing";
      weight.mutable_grad().reset();
    }
  });
}

TEST(DdpBuckets, BuffersAreRankZerosWhenAskedFor) {
  run_ranks(2, [](World& world) {
    const int64_t rank = world.rank().value;
    const at::Tensor mean = at::full({3}, static_cast<double>(rank), here());
    const at::Tensor count = at::full({}, 5 + rank, here(at::kLong));
    const Replica ours(at::kDouble, rank_of(world));
    const Ddp ddp({ours.parameters, {{"mean", mean}, {"count", count}}}, world.group());
    RANK_EXPECT(mean.equal(at::zeros({3}, here())) && count.item<int64_t>() == 5);
    mean.add_(static_cast<double>(rank + 1));
    count.add_(rank + 1);
    ours.loss(rows_of(world, 0)).backward();
    RANK_EXPECT(count.item<int64_t>() == 6 + rank) << "a backward pass leaves them alone";
    ddp.broadcast_buffers();
    RANK_EXPECT(mean.equal(at::ones({3}, here())) && count.item<int64_t>() == 6);
  });
}

TEST(DdpBuckets, AGroupOfOneIsLeftAlone) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, rank_of(world));
    const Replica plain(at::kDouble, rank_of(world));
    const Ddp ddp({ours.parameters}, world.group({world.rank()}));
    ours.loss(rows_of(world, 0)).backward();
    plain.loss(rows_of(world, 0)).backward();
    ddp.reduce();
    ddp.broadcast_buffers();
    RANK_EXPECT(gradient_difference(ours, plain) == 0 && ddp.buckets().empty());
  });
}

// ---- What is refused

struct Odd {
  std::string what;
  std::function<void(Replica&, DdpOptions&)> change;  // On rank 1.
  std::string said;
};

const std::vector<Odd> kOdd{
    {"a shape",
     [](Replica& r, DdpOptions&) {
       r.parameters[2].tensor = at::zeros({7, 3}, here()).requires_grad_();
     },
     concat("rank 1 has parameter 'layer1.weight' of Float [7, 3] on ", testkit::device().type(),
            " where rank 0 of the group has parameter 'layer1.weight' of Float [7, 7] on ",
            testkit::device().type())},
    {"a dtype",
     [](Replica& r, DdpOptions&) {
       r.parameters[3].tensor = at::zeros({7}, here(at::kDouble)).requires_grad_();
     },
     "rank 1 has parameter 'layer1.bias' of Double [7]"},
    {"a name", [](Replica& r, DdpOptions&) { r.parameters[0].name = "first.weight"; },
     concat("rank 1 has parameter 'first.weight' of Float [7, 7] on ", testkit::device().type(),
            " where rank 0 of the group has parameter 'layer0.weight'")},
    {"a parameter less", [](Replica& r, DdpOptions&) { r.parameters.pop_back(); },
     "rank 1 has nothing where rank 0 of the group has parameter 'layer2.bias'"},
    {"a frozen parameter",
     [](Replica& r, DdpOptions&) { r.parameters[1].tensor.requires_grad_(false); },
     "which is not trained where rank 0"},
    {"the size of buckets", [](Replica&, DdpOptions& o) { o.bucket_bytes = 77; },
     "rank 1 has bucket_bytes 77 and"},
    {"no size of buckets", [](Replica&, DdpOptions& o) { o.bucket_bytes = 0; },
     "rank 1 says: bucket_bytes is 0; buckets hold at least 1 byte"},
    {"a dtype that is no number of fractions",
     [](Replica&, DdpOptions& o) { o.reduce_dtype = at::kInt; },
     "rank 1 says: reduce_dtype is Int; gradients are reduced in real floating-point dtypes"},
    {"an undefined tensor", [](Replica& r, DdpOptions&) { r.parameters[4].tensor = at::Tensor(); },
     "rank 1 says: parameter 'layer2.weight' is undefined"},
    {"a name twice", [](Replica& r, DdpOptions&) { r.parameters[1].name = "layer0.weight"; },
     "rank 1 says: parameter 'layer0.weight' is listed twice"},
    {"no leaf",
     [](Replica& r, DdpOptions&) { r.parameters[0].tensor = r.parameters[0].tensor * 2; },
     "rank 1 says: parameter 'layer0.weight' is the result of an operation"},
};

TEST(DdpRefusals, ModelsThatDifferAreToldInTheSameWordsOnAllRanks) {
  run_ranks(3, [](World& world) {
    for (const Odd& odd : kOdd) {
      Replica ours(at::kFloat, rank_of(world));
      const at::Tensor before = ours.parameters[0].tensor.detach().clone();
      DdpOptions options;
      if (rank_of(world) == 1) odd.change(ours, options);
      const std::string said = common_refusal<ConfigError>(
          world, [&] { const Ddp ddp({ours.parameters}, world.group(), options); });
      RANK_EXPECT(contains(said, odd.said)) << odd.what << ":\n" << said;
      RANK_EXPECT(rank_of(world) == 1 || ours.parameters[0].tensor.equal(before)) << odd.what;
    }
    const Replica ours(at::kFloat, 0);
    const Ddp ddp({ours.parameters}, world.group());
    const std::string said = common_refusal<ConfigError>(
        world, [&] { const Ddp second({ours.parameters}, world.group()); });
    RANK_EXPECT(contains(said, "has a hook for its gradient already")) << said;
  });
}

TEST(DdpRefusals, SharesMustAddUpToOne) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    ddp.set_share(0.4);
    const std::string said =
        common_refusal<ConfigError>(world, [&] { ours.loss(rows_of(world, 0)).backward(); });
    RANK_EXPECT(contains(said, "add up to 0.8, not to 1")) << said;
    EXPECT_THROW(ddp.set_share(1.5), ConfigError);
    EXPECT_THROW(ddp.set_share(std::nan("")), ConfigError);
  });
}

// The rank with the bad gradient takes part until all know of it.
TEST(DdpRefusals, AGradientRefusedOnOneRankIsToldByBackwardOnAll) {
  run_ranks(3, [](World& world) {
    for (const int64_t bucket_bytes : kBucketSizes) {
      Replica ours(at::kDouble, 0);
      ours.add("table", at::ones({4, 2}, here(at::kDouble)));
      const at::Tensor& table = ours.parameters[6].tensor;
      const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = bucket_bytes});
      const auto step = [&](bool sparse) {
        const at::Tensor picked =
            at::embedding(table, at::tensor({1, 3}, here(at::kLong)), -1, false, sparse);
        (ours.layer(0, rows_of(world, 0)).sum() + picked.sum()).backward();
      };
      step(false);
      ours.zero_grad();
      std::string said;
      try {
        step(rank_of(world) == 1);
      } catch (const ConfigError& error) {
        said = error.what();
      }
      RANK_EXPECT(contains(said, rank_of(world) == 1 ? "the gradient of parameter 'table' is of "
                                                       "layout Sparse; only dense"
                                                     : "refused on another rank of group world"))
          << said;
      ours.zero_grad();
      step(false);
      RANK_EXPECT(largest_difference(table.grad().sum(), at::full({}, 4, here(at::kDouble))) <
                  kExact)
          << "all goes on";
    }
  });
}

TEST(DdpRefusals, GradientsThatComeTooLateAreNamed) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    ours.loss(rows_of(world, 0)).backward();
    const WeightGradients later;
    (deferred_loss(ours, rows_of(world, 0), later)).backward();
    const std::string said = common_refusal<StateError>(world, [&] { later.run(); });
    RANK_EXPECT(contains(said, "got a gradient outside of a backward pass")) << said;
    ours.zero_grad();
    EXPECT_THROW(ddp.finish_reduce(), StateError);
    ddp.start_reduce();
    EXPECT_THROW(ddp.start_reduce(), StateError);
    const auto held = ddp.no_sync();
    const std::string sent =
        common_refusal<StateError>(world, [&] { ours.loss(rows_of(world, 0)).backward(); });
    RANK_EXPECT(contains(sent, "after its bucket was sent")) << sent;
    ddp.finish_reduce();
  });
}

// ---- What goes wrong between the ranks

TEST(DdpFailures, ARankThatSkipsBackwardIsMissedInTime) {
  run_ranks(3, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    ours.loss(rows_of(world, 0)).backward();
    ddp.group().set_timeout(std::chrono::seconds(2));
    std::string said;
    try {
      if (rank_of(world) != 1) ours.loss(rows_of(world, 1)).backward();
    } catch (const CommError& error) {
      said = error.what();
    }
    RANK_EXPECT(said.empty() == (rank_of(world) == 1)) << said;
    if (!said.empty()) {
      RANK_EXPECT(contains(said, "timed out after") && contains(said, "rank 1 ")) << said;
    }
    barrier(world.group());
  });
}

TEST(DdpFailures, InCheckedModeSkippedPassesAreNamed) {
  setenv("TESSERA_CHECK_COLLECTIVES", "1", 1);
  run_ranks(3, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    ours.loss(rows_of(world, 0)).backward();
    std::string said;
    try {
      if (rank_of(world) == 1) {
        barrier(ddp.group());
      } else {
        ours.loss(rows_of(world, 1)).backward();
      }
    } catch (const CommError& error) {
      said = error.what();
    }
    RANK_EXPECT(contains(said, "ranks 0, 2 called all_reduce #") &&
                contains(said, "but rank 1 called barrier #"))
        << said;
  });
}

}  // namespace
}  // namespace tessera
