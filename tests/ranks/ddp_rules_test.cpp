// Gradients of replicas in all special cases.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <set>

#include "tessera/base/text.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/device.h"
#include "tests/testkit/operators.h"
#include "tests/testkit/ranks.h"

namespace tessera {

using namespace comm::detail;

namespace {

using testkit::deferred_loss;
using testkit::GlobalBatch;
using testkit::gradient_difference;
using testkit::here;
using testkit::kBucketSizes;
using testkit::kExact;
using testkit::largest_difference;
using testkit::random_tensor;
using testkit::rank_of;
using testkit::Replica;
using testkit::rows_of;
using testkit::run_ranks;

at::Tensor all_rows(const World& world, uint64_t step) {
  return GlobalBatch(world, at::kDouble, false, step).all;
}

/// Number of operations on the reduce lane so far.
uint64_t num_operations(const Ddp& ddp) {
  const GroupState& state = ddp.group().state();
  const auto& twin = state.cpu_twin();
  return state.communicator()->sequence() + (twin ? twin->communicator()->sequence() : 0);
}

// ---- Which gradients are summed

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
      if (round > 0) continue;  // Then accumulate into gradients that are views.
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
  Parameters parameters;

  Branches() {
    for (const char* name : {"common", "first", "others", "nobody"}) {
      parameters.push_back({name, at::ones({3}, here(at::kDouble)).requires_grad_()});
    }
  }
  // Rank 0 takes one branch, the others another; in the next step vice versa.
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
    for (const Parameter& parameter : model.parameters) parameter.tensor.mutable_grad().reset();
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
      const bool idle = rank_of(world) == step;  // Rank 0 in the first pass, which finds the order.
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
      for (const Parameter& parameter : ours.parameters)
        parameter.tensor.grad().zero_();  // They stay views.
      whole.zero_grad();
    }
  });
}

// The second pass of a recomputed part runs in a node of the first.
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
      const uint64_t num_others = step == 0 ? 2 : 1;  // The reports, and the order of the buckets.
      RANK_EXPECT(num_operations(ddp) - before == ddp.buckets().size() + num_others) << step;
      ours.zero_grad();
      whole.zero_grad();
    }
  });
}

// The outer pass does not reach the recomputed layer, and its input has the form of a weight.
TEST(DdpGradients, RecomputedParametersAreNotTakenForReplacedOnes) {
  run_ranks(2, [](World& world) {
    Replica ours(at::kDouble, rank_of(world), 2);
    ours.add("unused", at::ones({3}, here(at::kDouble)));
    const Ddp ddp({ours.parameters}, world.group());
    for (uint64_t step = 0; step < 2; ++step) {
      const at::Tensor x = random_tensor({Replica::kWidth, Replica::kWidth}, at::kDouble, step);
      const at::Tensor hidden = Recomputed::apply(x.requires_grad_(), &ours, 0);
      ours.layer(1, hidden).sum().backward();
      RANK_EXPECT(ours.parameters[0].tensor.grad().defined()) << step;
      ours.zero_grad();
    }
  });
}

// ---- How gradients are sent

// Buckets are sent while the backward pass still computes, as the order of events shows.
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
    RANK_EXPECT(num_operations(ddp) - before == 7) << "the last layer, and the reports";
  });
}

// To copy a value to the host, or to read one, the host would wait for a GPU.
TEST(DdpBuckets, TheHostReadsNothingOfThem) {
  run_ranks(2, [](World& world) {
    const Branches model;
    const Ddp ddp({model.parameters}, world.group(), {.bucket_bytes = 1});
    // Gloo sends the tensors of a GPU by way of the host.
    const bool by_host = testkit::device().is_cuda() && ddp.group().backend() == Backend::kGloo;
    for (int step = 0; step < 3; ++step) {
      for (const Parameter& parameter : model.parameters) parameter.tensor.mutable_grad().reset();
      const at::Tensor loss = model.loss(world.rank().value, step);
      const testkit::OperatorCalls calls;
      loss.backward();
      RANK_EXPECT(calls.count("aten::mul") > 0) << "the test sees no operators";
      RANK_EXPECT(calls.count("aten::_local_scalar_dense") == 0) << step;
      RANK_EXPECT(by_host || calls.count("aten::copy_") == 0) << step;
    }
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
      for (const Parameter& parameter : ours.parameters) {
        storages.insert(parameter.tensor.grad().storage().data());
      }
    }
    RANK_EXPECT(ddp.buckets().size() == 1U && storages.size() == 1U) << storages.size();
  });
}

at::Tensor transposed_weight() {
  return random_tensor({5, 3}, at::kDouble, 3).t().requires_grad_();
}

TEST(DdpBuckets, GradientsHaveTheStridesOfTheirParameters) {
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

// Integers of eight bits: the sum of four is exact in fp32, but not in bf16.
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

TEST(DdpBuckets, AGroupOfOneDoesNothing) {
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

}  // namespace
}  // namespace tessera
