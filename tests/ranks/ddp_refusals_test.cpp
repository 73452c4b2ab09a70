// Inputs that Ddp refuses with the same error on all ranks, and failures between ranks.
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/variable.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::deferred_loss;
using testkit::here;
using testkit::kBucketSizes;
using testkit::kExact;
using testkit::largest_difference;
using testkit::rank_of;
using testkit::Replica;
using testkit::rows_of;
using testkit::run_ranks;

/// The error message if it is the same on all ranks; otherwise "".
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
            ", but rank 0 of the group has parameter 'layer1.weight' of Float [7, 7] on ",
            testkit::device().type())},
    {"a dtype",
     [](Replica& r, DdpOptions&) {
       r.parameters[3].tensor = at::zeros({7}, here(at::kDouble)).requires_grad_();
     },
     "rank 1 has parameter 'layer1.bias' of Double [7]"},
    {"a name", [](Replica& r, DdpOptions&) { r.parameters[0].name = "first.weight"; },
     concat("rank 1 has parameter 'first.weight' of Float [7, 7] on ", testkit::device().type(),
            ", but rank 0 of the group has parameter 'layer0.weight'")},
    {"a parameter less", [](Replica& r, DdpOptions&) { r.parameters.pop_back(); },
     "rank 1 has nothing, but rank 0 of the group has parameter 'layer2.bias'"},
    {"a frozen parameter",
     [](Replica& r, DdpOptions&) { r.parameters[1].tensor.requires_grad_(false); },
     "which is not trained, but rank 0"},
    {"the size of buckets", [](Replica&, DdpOptions& o) { o.bucket_bytes = 77; },
     "rank 1 has bucket_bytes 77 and"},
    {"no size of buckets", [](Replica&, DdpOptions& o) { o.bucket_bytes = 0; },
     "rank 1 says: bucket_bytes must be ≥ 1, but is 0"},
    {"a dtype that is no number of fractions",
     [](Replica&, DdpOptions& o) { o.reduce_dtype = at::kInt; },
     "rank 1 says: reduce_dtype is Int; choose a real floating-point dtype"},
    {"an undefined tensor", [](Replica& r, DdpOptions&) { r.parameters[4].tensor = at::Tensor(); },
     "rank 1 says: parameter 'layer2.weight' is undefined"},
    {"a name twice", [](Replica& r, DdpOptions&) { r.parameters[1].name = "layer0.weight"; },
     "rank 1 says: parameter 'layer0.weight' is listed twice"},
    {"no leaf",
     [](Replica& r, DdpOptions&) { r.parameters[0].tensor = r.parameters[0].tensor * 2; },
     "rank 1 says: parameter 'layer0.weight' is not a leaf tensor"},
};

TEST(DdpRefusals, DifferentModelsGiveTheSameErrorOnAllRanks) {
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
    RANK_EXPECT(contains(said, "already has a gradient hook")) << said;
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

// The rank with the bad gradient takes part in the reduction, so that all know of it.
TEST(DdpRefusals, AGradientRefusedOnOneRankFailsBackwardOnAll) {
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
      RANK_EXPECT(contains(said, rank_of(world) == 1
                                     ? "the gradient of parameter 'table' is of "
                                       "layout Sparse; only dense"
                                     : "another rank of group world refused a gradient"))
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
    EXPECT_THROW(ddp.finish_reduce(), StateError);
    ddp.recover();
    ddp.reduce();
  });
}

// ---- Failures between ranks

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
    // Between the hosts alone: over NCCL the GPUs still wait for rank 1.
    RANK_EXPECT(testkit::sum_of_ranks(world.group()) ==
                testkit::reduced_rank(world, world.group()));
  });
}

/// The call of rank 1 differs from that of the others, which fails on all of them; so does the
/// next reduction.
void expect_named(const World& world, const Ddp& ddp, const std::function<void()>& pass) {
  const auto said_by = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const CommError& error) {
      return error.what();
    }
    return "";
  };
  const std::string said = said_by([&] { rank_of(world) == 1 ? barrier(ddp.group()) : pass(); });
  RANK_EXPECT(contains(said, "ranks 0, 2 called all_reduce #") &&
              contains(said, "but rank 1 called barrier #"))
      << said;
  const std::string next = said_by([&] { ddp.reduce(); });
  RANK_EXPECT(contains(next, "is unusable")) << next;
}

TEST(DdpFailures, InCheckedModeSkippedPassesAreNamed) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(3, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    ours.loss(rows_of(world, 0)).backward();
    expect_named(world, ddp, [&] { ours.loss(rows_of(world, 1)).backward(); });
  });
}

// Rank 1 sends a bucket, but no report.
TEST(DdpFailures, InCheckedModeMissingReportsAreNamed) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(3, [](World& world) {
    const at::Tensor weight = at::ones({5}, here()).requires_grad_();
    const Ddp ddp({{{"weight", weight}}}, world.group());
    weight.sum().backward();
    if (rank_of(world) == 1) all_reduce(at::zeros({5}, here()), ddp.group()).wait();
    expect_named(world, ddp, [&] { weight.sum().backward(); });
  });
}

}  // namespace
}  // namespace tessera
