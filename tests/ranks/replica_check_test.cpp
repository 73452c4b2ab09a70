// Ranks that hold the same: a flipped bit is found, and averages of weights are the same in all
// layouts.
#include "tessera/train/replica_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/optim/weight_average.h"
#include "tessera/train/job.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::run_ranks;

/// A layout of four ranks.
struct Way {
  std::string name;
  Case c;
};

Case case_of(int64_t dp, int64_t shard, int64_t tp, int64_t pp) {
  return {.dp = dp,
          .pp = pp,
          .microbatches = pp > 1 ? 4 : 1,
          .adamw = true,
          .shard = shard,
          .rate = 1e-2,
          .tp = tp,
          .sequence = tp < 4,
          .layers = 2};
}

Case tied(Case c) {
  c.tied = true;
  return c;
}

Case zero1(Case c) {
  c.fsdp.reshard = Reshard::kKeep;
  return c;
}

std::vector<Way> ways() {
  return {{"dp", case_of(4, 1, 1, 1)},
          {"hsdp", case_of(2, 2, 1, 1)},
          {"zero1 with replicas", zero1(case_of(2, 2, 1, 1))},
          {"fsdp × tp", case_of(1, 2, 2, 1)},
          {"dp × tp", case_of(2, 1, 2, 1)},
          {"tp 4, with copies of heads", case_of(1, 1, 4, 1)},
          {"pp × dp, tied", tied(case_of(2, 1, 1, 2))},
          {"pp × tp, tied", tied(case_of(1, 1, 2, 2))}};
}

void step(const Case& c, Engine& engine, Optimizer& optimizer, int64_t number) {
  const Span rows = engine.rows();
  const auto mine = [&](const at::Tensor& all) { return all.slice(0, rows.begin, rows.end); };
  optimizer.zero_grad();
  engine.train_step(mine(tokens(c, number)), mine(targets(c, number)));
  clip_grads_(engine.parameters(), engine.grad_norm().item<double>(), 0.5);
  optimizer.step(c.rate);
}

void flip_bit(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().view(-1).view(at::kByte);
  bytes.narrow(0, bytes.numel() - 1, 1).bitwise_xor_(1);
}

std::string message_of_check(const ReplicaCheck& check) {
  try {
    check.check("step 3");
  } catch (const NumericError& error) {
    return error.what();
  }
  return "";
}

// What the ranks of a world hold, by name and place.
std::vector<std::string> places_of(const ReplicaTensors& held) {
  std::vector<std::string> places;
  for (const ReplicaTensor& one : held) {
    std::string place = one.name;
    for (const Span& span : one.part.spans()) place += concat(" ", span.begin, "-", span.end);
    places.push_back(one.part.numel() == 0 ? "" : place);
  }
  return places;
}

// Each tensor of one rank is damaged in turn.
void check_way(World& world, const Way& way) {
  constexpr size_t kDamaged = 3;
  Engine engine = engine_of(world, way.c, at::kFloat);
  const auto optimizer = optimizer_of(way.c, engine.parameters());
  const ReplicaTensors held = replica_tensors(engine.parameters(), *optimizer);
  const ReplicaCheck check(engine.plan(), world.group(), held);
  for (int64_t i = 0; i < 3; ++i) step(way.c, engine, *optimizer, i);
  RANK_EXPECT(message_of_check(check).empty()) << way.name << ": " << message_of_check(check);

  const auto places = all_gather_object(places_of(held), world.group());
  int64_t found = 0;
  for (size_t i = 0; i < places[kDamaged].size(); ++i) {
    const std::string& place = places[kDamaged][i];
    const auto copies = std::ranges::count_if(places, [&](const auto& of_rank) {
      return !place.empty() && std::ranges::find(of_rank, place) != of_rank.end();
    });
    const bool here = world.rank() == GlobalRank{kDamaged} && !place.empty();
    if (here) flip_bit(held[i].tensor);
    const std::string message = message_of_check(check);
    if (here) flip_bit(held[i].tensor);
    RANK_EXPECT(message.empty() == (copies < 2)) << way.name << ", " << place << ": " << message;
    if (message.empty()) continue;
    ++found;
    const std::string name = place.substr(0, place.find(' '));
    RANK_EXPECT(message.starts_with(concat("'", name, "' of rank "))) << way.name << message;
    RANK_EXPECT(message.find("rank 3") != std::string::npos) << way.name << ": " << message;
    for (const std::string& other : all_gather_object(message, world.group())) {
      RANK_EXPECT(other == message) << way.name << ": " << other;
    }
  }
  RANK_EXPECT(found > 0) << way.name;
  RANK_EXPECT(message_of_check(check).empty()) << way.name;
}

TEST(ReplicaCheck, FindsAFlippedBitInEveryTensorThatHasACopy) {
  run_ranks(4, [](World& world) {
    for (const Way& way : ways()) check_way(world, way);
  });
}

constexpr double kDecay = 0.75;
constexpr int64_t kSteps = 3;

// Of one process.
std::map<std::string, at::Tensor> averages_alone(const Case& c) {
  Llama model(config_of(c), {.dtype = at::kDouble, .device = testkit::device()});
  model.initialize(kSeed);
  const auto optimizer = optimizer_of(c, model.named_parameters());
  WeightAverage average(model.named_parameters(), *optimizer, kDecay);
  for (int64_t i = 0; i < kSteps; ++i) {
    optimizer->zero_grad();
    token_loss(model.forward(tokens(c, i)), targets(c, i)).backward();
    clip_grad_norm_(model.named_parameters(), 0.5);
    optimizer->step(c.rate);
    average.update();
  }
  std::map<std::string, at::Tensor> found;
  for (const Parameter& one : average.averages()) found[one.name] = one.tensor;
  return found;
}

void expect_averages(const Case& c, const WeightAverage& average, const std::string& name) {
  const auto expected = averages_alone(c);
  for (const Parameter& one : average.averages()) {
    const at::Tensor part = elements_of(expected.at(one.name), one.place.part);
    RANK_EXPECT(at::allclose(one.tensor.reshape(-1), part, kExact, kExact))
        << name << ": " << one.name;
  }
}

TEST(WeightAverage, IsTheSameInAllLayoutsAndGoesFromOneToTheNext) {
  run_ranks(4, [](World& world) {
    const testkit::TemporaryFolder own;
    const std::string folder = broadcast_object(own.path(), GlobalRank{0}, world.group());
    std::map<bool, std::string> saved;  // Of the last layout: tied or not.
    for (const Way& way : ways()) {
      Engine engine = engine_of(world, way.c, at::kDouble);
      const auto optimizer = optimizer_of(way.c, engine.parameters());
      WeightAverage average(engine.parameters(), *optimizer, kDecay);
      if (saved.contains(way.c.tied)) {
        load(Checkpoint(saved[way.c.tied]), average_entries(average));
        expect_averages(way.c, average, way.name + " after loading");
        average.reset();
      }
      for (int64_t i = 0; i < kSteps; ++i) {
        step(way.c, engine, *optimizer, i);
        average.update();
      }
      expect_averages(way.c, average, way.name);
      saved[way.c.tied] = concat(folder, "/", way.name);
      save(saved[way.c.tied], average_entries(average), world.group());
    }
    barrier(world.group());
  });
}

}  // namespace
}  // namespace tessera
