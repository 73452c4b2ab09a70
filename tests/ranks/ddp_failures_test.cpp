// Backward passes that fail on one rank, passes that a rank skips, and replaced parameters: every
// rank gets an error, and all continue together.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/variable.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::GlobalBatch;
using testkit::gradient_difference;
using testkit::here;
using testkit::kBucketSizes;
using testkit::kExact;
using testkit::rank_of;
using testkit::Replica;
using testkit::rows_of;
using testkit::run_ranks;

/// The message of the exception of the body; "" if it throws none, or another type.
template <class Exception>
std::string said_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

void check_gradients(const World& world, const Replica& ours, uint64_t step) {
  const Replica whole(at::kDouble, 0);
  ours.zero_grad();
  ours.loss(rows_of(world, step)).backward();
  whole.loss(GlobalBatch(world, at::kDouble, false, step).all).backward();
  RANK_EXPECT(gradient_difference(ours, whole) < kExact) << "all goes on";
}

/// Where in a pass a rank fails: before the first gradient, between them, or after the last.
enum class Place { kLoss, kMiddle, kInput };

void fail(const at::Tensor& at) {
  at.register_hook([](const at::Tensor&) { throw std::runtime_error("no more memory"); });
}

at::Tensor failing_loss(const Replica& replica, const at::Tensor& rows, Place place) {
  const at::Tensor x = rows.clone().requires_grad_() * 1;
  if (place == Place::kInput) fail(x);
  const at::Tensor hidden = replica.layer(0, x);
  if (place == Place::kMiddle) fail(hidden);
  const at::Tensor loss = replica.layer(2, replica.layer(1, hidden)).square().mean();
  if (place == Place::kLoss) fail(loss);
  return loss;
}

// Rank 1 fails in pass `failing` and continues, like a program that skips bad batches.
void fail_and_recover(const World& world, Place place, int64_t failing, int64_t bucket_bytes) {
  const Replica ours(at::kDouble, 0);
  const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = bucket_bytes});
  const bool fails = rank_of(world) == 1;
  for (int64_t pass = 1; pass < failing; ++pass) check_gradients(world, ours, 0);
  ours.zero_grad();
  if (fails) {
    EXPECT_THROW(failing_loss(ours, rows_of(world, 1), place).backward(), std::runtime_error);
    const std::string said = said_by<StateError>([&] { ours.loss(rows_of(world, 2)).backward(); });
    RANK_EXPECT(contains(said, concat("backward pass ", failing,
                                      " failed on this rank (no more memory)")) &&
                contains(said, "call Ddp::recover() on all of them"))
        << said;
  } else {
    const std::string said = said_by<CommError>([&] { ours.loss(rows_of(world, 1)).backward(); });
    RANK_EXPECT(contains(said, concat("backward pass ", failing,
                                      " are incomplete: a backward pass failed on rank 1")) &&
                contains(said, "call Ddp::recover() on all of them"))
        << said;
    RANK_EXPECT(!said_by<StateError>([&] { ours.loss(rows_of(world, 2)).backward(); }).empty())
        << "nothing is reduced before all agree";
  }
  EXPECT_THROW(ddp.reduce(), StateError);
  EXPECT_THROW(ddp.broadcast_buffers(), StateError);
  ddp.recover();
  for (uint64_t step = 3; step < 6; ++step) check_gradients(world, ours, step);
}

void fail_everywhere(const World& world) {
  for (const Place place : {Place::kLoss, Place::kMiddle, Place::kInput}) {
    for (const int64_t failing : {1, 2, 3}) {
      for (const int64_t bucket_bytes : kBucketSizes) {
        SCOPED_TRACE(concat(static_cast<int>(place), " ", failing, " ", bucket_bytes));
        fail_and_recover(world, place, failing, bucket_bytes);
      }
    }
  }
}

TEST(DdpFailedPass, IsReportedOnAllRanksWhichContinueTogether) {
  run_ranks(3, fail_everywhere);
}

TEST(DdpFailedPass, IsReportedInCheckedModeToo) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(2, [](const World& world) { fail_and_recover(world, Place::kLoss, 2, 500); });
}

TEST(DdpFailedPass, UnderNoSyncIsReportedByTheNextReduction) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    check_gradients(world, ours, 0);
    {
      const auto alone = ddp.no_sync();
      if (rank_of(world) == 1) {
        EXPECT_THROW(failing_loss(ours, rows_of(world, 1), Place::kMiddle).backward(),
                     std::runtime_error);
      } else {
        ours.loss(rows_of(world, 1)).backward();
      }
    }
    const std::string said = said_by<Error>([&] { ours.loss(rows_of(world, 2)).backward(); });
    RANK_EXPECT(contains(said, rank_of(world) == 1 ? "backward pass 2 failed on this rank"
                                                   : "backward pass failed on rank 1"))
        << said;
    ddp.recover();
    check_gradients(world, ours, 3);
  });
}

TEST(DdpFailedPass, OnAllRanksIsReportedOnEachAndDoesNotAffectAnotherModel) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Replica other(at::kDouble, 0);
    const Ddp ddp({ours.parameters}, world.group());
    const Ddp second({other.parameters}, world.group());
    EXPECT_THROW(failing_loss(ours, rows_of(world, 1), Place::kLoss).backward(),
                 std::runtime_error);
    check_gradients(world, other, 1);
    const std::string said = said_by<StateError>([&] { ddp.reduce(); });
    RANK_EXPECT(contains(said, "backward pass 1 failed on this rank")) << said;
    ddp.recover();
    check_gradients(world, ours, 2);
  });
}

// Near and far apart: also by what is the same in few bits, and by what a float32 cannot tell.
const std::vector<std::pair<int64_t, int64_t>> kPasses{
    {1001, 1002}, {1, 1000}, {1, 1025}, {int64_t{1} << 50, (int64_t{1} << 50) + 1}};

// Only the program knows that it has skipped a step.
TEST(DdpPasses, RanksInDifferentStepsAreNamed) {
  run_ranks(3, [](World& world) {
    for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
      const at::Tensor weight = at::ones({3}, here(dtype)).requires_grad_();
      const Ddp ddp({{{"weight", weight}}}, world.group());
      const auto step = [&](int64_t number) {
        ddp.set_pass(number);
        weight.sum().backward();
      };
      for (const auto& [most, other] : kPasses) {
        step(1);
        const std::string said =
            said_by<CommError>([&] { step(rank_of(world) == 1 ? other : most); });
        RANK_EXPECT(
            contains(said, concat("ranks 0, 2 in pass ", most, "; rank 1 in pass ", other)) &&
            contains(said, "recover()"))
            << said;
        ddp.recover();
        step(other + 1);
        RANK_EXPECT(weight.grad().equal(at::ones({3}, here(dtype))));
        weight.mutable_grad().reset();
      }
      EXPECT_THROW(ddp.set_pass(-1), ConfigError);
    }
  });
}

// ---- Parameters that were replaced after Ddp was constructed

/// The error message if it is the same on all ranks; otherwise "".
std::string common_refusal(const World& world, const std::function<void()>& body) {
  const std::string said = said_by<StateError>(body);
  for (const std::string& other : all_gather_object(said, world.group())) {
    if (other != said) return "";
  }
  return said;
}

at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor.detach().clone().requires_grad_();
}

TEST(DdpReplaced, ParametersAreNamedOnAllRanksInTheNextPass) {
  run_ranks(3, [](World& world) {
    for (const bool at_first : {true, false}) {
      for (const bool on_all : {true, false}) {
        for (const int64_t bucket_bytes : kBucketSizes) {
          Replica ours(at::kDouble, 0);
          const Ddp ddp({ours.parameters}, world.group(), {.bucket_bytes = bucket_bytes});
          if (!at_first) check_gradients(world, ours, 0);
          at::Tensor& weight = ours.parameters[2].tensor;
          const at::Tensor before = weight;
          if (on_all || rank_of(world) == 1) weight = copy_of(weight);
          const auto pass = [&] { ours.loss(rows_of(world, 1)).backward(); };
          const std::string said = common_refusal(world, pass);
          RANK_EXPECT(contains(said, "parameter 'layer1.weight' was replaced") &&
                      contains(said, "construct Ddp again"))
              << said;
          weight = before;
          check_gradients(world, ours, 2);
        }
      }
    }
  });
}

TEST(DdpReplaced, OtherSizesAndDtypesAreNamedToo) {
  run_ranks(2, [](World& world) {
    for (const bool at_first : {true, false}) {
      const Replica ours(at::kDouble, 0);
      const Ddp ddp({ours.parameters}, world.group());
      if (!at_first) check_gradients(world, ours, 0);
      ours.zero_grad();
      const auto alone = ddp.no_sync();
      const at::Tensor& bias = ours.parameters[5].tensor;
      if (rank_of(world) == 1) bias.set_data(at::ones({1}, here(at::kFloat)));
      const std::string said = common_refusal(world, [&] {
        bias.sum().backward();
        ddp.reduce();
      });
      RANK_EXPECT(contains(said, "parameter 'layer2.bias' was replaced")) << said;
      RANK_EXPECT(bias.grad().sizes() == bias.sizes() && bias.grad().dtype() == bias.dtype());
    }
  });
}

// Inputs that require gradients, and parameters of another Ddp, are no replacements.
TEST(DdpReplaced, UnusedParametersAreNotTakenForReplacedOnes) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    const Replica others(at::kDouble, 1);
    const Ddp ddp({ours.parameters}, world.group());
    const Ddp second({others.parameters}, world.group());
    for (uint64_t step = 0; step < 3; ++step) {
      const at::Tensor x = rows_of(world, step).clone().requires_grad_();
      const std::string said =
          said_by<Error>([&] { others.layer(1, ours.layer(0, x)).sum().backward(); });
      RANK_EXPECT(said.empty() && x.grad().defined()) << said;
    }
  });
}

// ---- A moved-from object

TEST(DdpMoved, Throws) {
  run_ranks(2, [](World& world) {
    const Replica ours(at::kDouble, 0);
    Ddp first({ours.parameters}, world.group());
    const Ddp ddp = std::move(first);
    const std::vector<std::function<void()>> calls{
        [&] { (void)first.no_sync(); }, [&] { first.set_share(1); },
        [&] { first.set_pass(1); },     [&] { first.reduce(); },
        [&] { first.start_reduce(); },  [&] { first.finish_reduce(); },
        [&] { first.recover(); },       [&] { first.broadcast_buffers(); },
        [&] { (void)first.group(); },   [&] { (void)first.buckets(); }};
    for (const auto& call : calls) {
      RANK_EXPECT(contains(said_by<StateError>(call), "this Ddp was moved from"));
    }
    check_gradients(world, ours, 0);
  });
}

}  // namespace
}  // namespace tessera
