// Train in layout A, save, go on in layout B: losses and weights of the run that was not broken.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::run_ranks;

constexpr int64_t kBroken = 5;  // Steps before the save, and after it.
constexpr double kNear = 1e-9;

/// A layout of the world.
struct Way {
  std::string name;
  Case c;
};

Case case_of(int64_t dp, int64_t shard, int64_t tp, int64_t pp) {
  return {.dp = dp,
          .pp = pp,
          .microbatches = pp > 1 ? 2 * pp : 1,
          .adamw = true,
          .shard = shard,
          .rate = 1e-2,
          .tp = tp,
          .sequence = tp < 4};  // Rows of 6 tokens.
}

Case pipeline(int64_t dp, int64_t shard, int64_t pp, ScheduleKind kind) {
  Case c = case_of(dp, shard, 1, pp);
  c.kind = kind;
  return c;
}

Case zero1(int64_t replicas, int64_t shard) {
  Case c = case_of(replicas, shard, 1, 1);
  c.fsdp.reshard = Reshard::kKeep;
  return c;
}

std::vector<Way> ways_of_two() {
  return {{"dp", case_of(2, 1, 1, 1)},
          {"fsdp", case_of(1, 2, 1, 1)},
          {"zero1", zero1(1, 2)},
          {"tp", case_of(1, 1, 2, 1)},
          {"pp 1f1b", pipeline(1, 1, 2, ScheduleKind::k1F1B)},
          {"pp zbv", pipeline(1, 1, 2, ScheduleKind::kZBVZeroBubble)},
          {"pp interleaved", pipeline(1, 1, 2, ScheduleKind::kInterleaved1F1B)}};
}

std::vector<Way> ways_of_four() {
  return {{"dp", case_of(4, 1, 1, 1)},
          {"fsdp", case_of(1, 4, 1, 1)},
          {"hsdp", case_of(2, 2, 1, 1)},
          {"zero1", zero1(1, 4)},
          {"tp × fsdp", case_of(1, 2, 2, 1)},
          {"tp 4, with copies of heads", case_of(1, 1, 4, 1)},
          {"pp × dp", pipeline(2, 1, 2, ScheduleKind::k1F1B)},
          {"pp × fsdp, zbv", pipeline(1, 2, 2, ScheduleKind::kZBVZeroBubble)},
          {"pp × tp", case_of(1, 1, 2, 2)},
          {"pp 4, gpipe", pipeline(1, 1, 4, ScheduleKind::kGPipe)}};
}

// Steps first to last of a run, into `losses`.
void steps(const Case& c, Engine& engine, Optimizer& optimizer, Span which,
           std::vector<double>& losses) {
  const Span rows = engine.rows();
  const auto mine = [&](const at::Tensor& all) { return all.slice(0, rows.begin, rows.end); };
  for (int64_t step = which.begin; step < which.end; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = engine.train_step(mine(tokens(c, step)), mine(targets(c, step)));
    losses.push_back(loss.item<double>());
    clip_grads_(engine.parameters(), engine.grad_norm(), 0.5);
    optimizer.step(c.rate);
  }
}

CheckpointEntries all_entries(const Engine& engine, const Optimizer& optimizer) {
  CheckpointEntries entries = entries_of(engine.parameters());
  for (CheckpointEntry& entry : entries_of(optimizer, engine.parameters())) {
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string shared_folder(const std::string& mine, const Group& group) {
  return broadcast_object(mine, GroupRank{0}, group);
}

// Trains the first half and saves it.
std::vector<double> train_and_save(World& world, Case c, bool tied, const std::string& path) {
  c.tied = tied;
  Engine engine = engine_of(world, c, at::kDouble);
  const auto optimizer = optimizer_of(c, engine.parameters());
  std::vector<double> losses;
  steps(c, engine, *optimizer, {0, kBroken}, losses);
  save(path, all_entries(engine, *optimizer), world.group());
  return losses;
}

// The second half in another layout, compared with one process; not a byte too much is read.
void resume(World& world, const Way& way, bool tied, const std::string& path,
            const Reference& alone, std::vector<double> losses, const std::string& from) {
  SCOPED_TRACE(concat(from, " to ", way.name, tied ? ", tied" : ""));
  Case c = way.c;
  c.tied = tied;
  const Checkpoint checkpoint(path);
  const LlamaConfig config = config_of(c);
  Model model = llama_model(config, {.dtype = at::kDouble, .device = testkit::device()});
  model.fill = [&](const Parameters& parameters) { load_parameters(checkpoint, parameters); };
  const Plan plan =
      train_plan(world.size(), {.pp = c.pp, .dp_replicate = c.dp, .dp_shard = c.shard, .tp = c.tp});
  Engine engine = compose(model, realize(plan, world),
                          {.batch = c.batch,
                           .schedule = schedule_of(c),
                           .device = testkit::device(),
                           .sequence = c.sequence,
                           .fsdp = c.fsdp});
  const auto optimizer = optimizer_of(c, engine.parameters());
  load_optimizer(checkpoint, *optimizer, engine.parameters());
  int64_t held = 0;
  for (const CheckpointEntry& entry : all_entries(engine, *optimizer)) {
    held += static_cast<int64_t>(entry.tensor.nbytes());
  }
  const int64_t twice = tied && c.pp > 1 ? 17 * 8 * 8 : 0;  // Stages of one rank that share it.
  RANK_EXPECT(checkpoint.bytes_read() - held <= twice) << checkpoint.bytes_read() << " of " << held;
  steps(c, engine, *optimizer, {kBroken, 2 * kBroken}, losses);
  RANK_EXPECT(are_close(losses, alone.trained.losses, kNear)) << from << " to " << way.name;
  expect_same_parameters(c, engine.parameters(), alone.model, kNear);
}

Reference unbroken(bool tied) {
  Case c = case_of(1, 1, 1, 1);
  c.tied = tied;
  c.steps = 2 * kBroken;
  return train_alone(c);
}

// Checkpoints of this world's ways, and each continued in each other way.
void check_ways(World& world, const std::vector<Way>& ways) {
  const testkit::TemporaryFolder own;
  const std::string folder = shared_folder(own.path(), world.group());
  for (const bool tied : {false, true}) {
    const Reference alone = unbroken(tied);
    for (size_t i = 0; i < ways.size(); ++i) {
      const std::string path = concat(folder, "/", i, tied);
      const auto losses = train_and_save(world, ways[i].c, tied, path);
      // Next, and next but two: each way is left and entered twice.
      for (const size_t to : {(i + 1) % ways.size(), (i + 3) % ways.size()}) {
        resume(world, ways[to], tied, path, alone, losses, ways[i].name);
      }
    }
  }
  barrier(world.group());
}

TEST(CheckpointRanks, TwoRanksGoOnInAnyLayout) {
  run_ranks(2, [](World& world) { check_ways(world, ways_of_two()); });
}

TEST(CheckpointRanks, FourRanksGoOnInAnyLayout) {
  run_ranks(4, [](World& world) { check_ways(world, ways_of_four()); });
}

}  // namespace
}  // namespace tessera
