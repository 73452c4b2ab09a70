// Train in layout A, save, go on in layout B: losses and weights of the run that was not broken.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/checkpoint_case.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::run_ranks;

constexpr int64_t kBroken = 5;  // Steps before the save, and after it.
constexpr double kNear = 1e-9;

std::vector<Way> ways_of_two() {
  return {{"single"},
          {"dp", {.dp_replicate = 2}},
          {"fsdp", {.dp_shard = 2}},
          {"zero1", {.dp_shard = 2}, {.keep = true}},
          {"tp", {.tp = 2}},
          {"cp", {.cp = 2}},
          {"pp 1f1b", {.pp = 2}},
          {"pp zbv", {.pp = 2}, {.kind = ScheduleKind::kZBVZeroBubble}},
          {"pp interleaved", {.pp = 2}, {.kind = ScheduleKind::kInterleaved1F1B}}};
}

std::vector<Way> expert_ways_of_two() {
  return {{"single"},
          {"ep", {.dp_replicate = 2, .ep = 2}},
          {"dp", {.dp_replicate = 2}},
          {"ep × fsdp", {.dp_shard = 2, .ep = 2}},
          {"tp", {.tp = 2}},
          {"etp", {.dp_replicate = 2, .etp = 2}},
          {"cp, ep", {.cp = 2, .ep = 2}},
          {"fsdp", {.dp_shard = 2}}};
}

std::vector<Way> ways_of_four() {
  return {{"dp", {.dp_replicate = 4}},
          {"cp × tp", {.cp = 2, .tp = 2}},
          {"fsdp", {.dp_shard = 4}},
          {"hsdp", {.dp_replicate = 2, .dp_shard = 2}},
          {"zero1", {.dp_shard = 4}, {.keep = true}},
          {"tp × fsdp", {.dp_shard = 2, .tp = 2}},
          {"cp × fsdp", {.dp_shard = 2, .cp = 2}},
          {"tp 4, with copies of heads", {.tp = 4}},
          {"pp × dp", {.pp = 2, .dp_replicate = 2}},
          {"pp × fsdp, zbv", {.pp = 2, .dp_shard = 2}, {.kind = ScheduleKind::kZBVZeroBubble}},
          {"pp × tp", {.pp = 2, .tp = 2}},
          {"pp 4, gpipe", {.pp = 4}, {.kind = ScheduleKind::kGPipe}}};
}

std::vector<Way> expert_ways_of_four() {
  return {{"single"},
          {"ep 4", {.dp_replicate = 4, .ep = 4}},
          {"tp × fsdp", {.dp_shard = 2, .tp = 2}},
          {"ep 2 × dp 2", {.dp_replicate = 4, .ep = 2}},
          {"fsdp", {.dp_shard = 4}},
          {"ep 2 × pp 2", {.pp = 2, .dp_replicate = 2, .ep = 2}},
          {"ep 2 × fsdp", {.dp_shard = 4, .ep = 2}},
          {"ep 2 × etp 2", {.dp_replicate = 4, .ep = 2, .etp = 2}},
          {"cp × tp, ep", {.cp = 2, .tp = 2, .ep = 2}},
          {"ep 2 × etp 2 × fsdp", {.dp_shard = 4, .ep = 2, .etp = 2}}};
}

// Steps of a run, into `losses`.
void steps(Run& run, Span which, std::vector<double>& losses) {
  for (int64_t step = which.begin; step < which.end; ++step) losses.push_back(run.train(step));
}

CheckpointEntries all_entries(const Run& run) {
  CheckpointEntries entries = entries_of(run.parameters);
  for (const CheckpointEntries& more :
       {entries_of(*run.optimizer, run.parameters), entries_of(run.buffers)}) {
    entries.insert(entries.end(), more.begin(), more.end());
  }
  return entries;
}

// A run with the values of a checkpoint.
Run resumed(World& world, const Way& way, const Subject& subject, const Checkpoint& from) {
  Run run = make_run(world, way, subject,
                     [&](const Parameters& parameters) { load_parameters(from, parameters); });
  load_optimizer(from, *run.optimizer, run.parameters);
  load(from, entries_of(run.buffers));
  return run;
}

// Trains the first half and saves it.
std::vector<double> train_and_save(World& world, const Way& way, const Subject& subject,
                                   const std::string& path) {
  Run run = make_run(world, way, subject);
  std::vector<double> losses;
  steps(run, {0, kBroken}, losses);
  save(path, all_entries(run), world.group());
  return losses;
}

/// A run in one process that was not broken.
struct Unbroken {
  Run run;
  std::vector<double> losses = {};
};

Unbroken unbroken(World& world, const Subject& subject) {
  Unbroken alone{make_run(world, {"single"}, subject)};
  steps(alone.run, {0, 2 * kBroken}, alone.losses);
  return alone;
}

void expect_same(const Parameters& mine, const Parameters& whole) {
  std::map<std::string, at::Tensor> expected;
  for (const Parameter& parameter : whole) expected[parameter.name] = parameter.tensor;
  for (const Parameter& parameter : mine) {
    const at::Tensor part = elements_of(expected.at(parameter.name), parameter.place.part);
    const at::Tensor own = parameter.tensor.detach().reshape(-1).to(part.options());
    RANK_EXPECT(at::allclose(own, part, kNear, kNear)) << parameter.name;
  }
}

// The second half in another layout, compared with one process; not a byte too much is read.
void resume(World& world, const Way& way, const Subject& subject, const std::string& path,
            const Unbroken& alone, std::vector<double> losses, const std::string& from) {
  SCOPED_TRACE(concat(from, " to ", way.name, ", ", subject.name));
  const Checkpoint checkpoint(path);
  Run run = resumed(world, way, subject, checkpoint);
  int64_t held = 0;
  for (const CheckpointEntry& entry : all_entries(run)) {
    held += static_cast<int64_t>(entry.tensor.nbytes());
  }
  const int64_t twice =  // Stages of one rank that share it.
      subject.config.tie_word_embeddings && way.dims.pp > 1 ? 17 * 8 * 8 : 0;
  RANK_EXPECT(checkpoint.bytes_read() - held <= twice) << checkpoint.bytes_read() << " of " << held;
  steps(run, {kBroken, 2 * kBroken}, losses);
  RANK_EXPECT(are_close(losses, alone.losses, kNear));
  expect_same(run.parameters, alone.run.parameters);
  expect_same(run.buffers, alone.run.buffers);
}

// Checkpoints of this world's ways, and each continued in each other way.
void check_ways(World& world, const std::vector<Way>& ways, const Subject& subject) {
  const testkit::TemporaryFolder own;
  const std::string folder = broadcast_object(own.path(), GroupRank{0}, world.group());
  const Unbroken alone = unbroken(world, subject);
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string path = concat(folder, "/", i);
    const auto losses = train_and_save(world, ways[i], subject, path);
    // Next, and next but two: each way is left and entered twice.
    for (const size_t to : {(i + 1) % ways.size(), (i + 3) % ways.size()}) {
      resume(world, ways[to], subject, path, alone, losses, ways[i].name);
    }
  }
  barrier(world.group());
}

// Saved in one dtype, continued in float64: the same in a layout and in one process. With 16 bits,
// the values come from the float32 masters.
void check_dtype(World& world, at::ScalarType dtype, const Way& from, const Way& to) {
  SCOPED_TRACE(concat(from.name, " in ", dtype, " to ", to.name));
  const testkit::TemporaryFolder own;
  const std::string folder = broadcast_object(own.path(), GroupRank{0}, world.group());
  const std::string path = folder + "/other_dtype";
  Subject subject = experts();
  subject.dtype = dtype;
  train_and_save(world, from, subject, path);
  const Checkpoint checkpoint(path);
  subject.dtype = at::kDouble;
  Unbroken alone{resumed(world, {"single"}, subject, checkpoint)};
  const Parameter& first = alone.run.parameters.front();
  const at::Tensor saved = at::empty_like(first.tensor, at::kFloat);
  load(checkpoint, {{dtype == at::kFloat ? first.name : state_name(first.name, "master"), saved}});
  RANK_EXPECT(first.tensor.detach().equal(saved.to(at::kDouble))) << "no bit is lost";
  RANK_EXPECT(!saved.to(at::kBFloat16).to(at::kFloat).equal(saved)) << "16 bits would lose some";
  steps(alone.run, {kBroken, 2 * kBroken}, alone.losses);
  Run run = resumed(world, to, subject, checkpoint);
  std::vector<double> losses;
  steps(run, {kBroken, 2 * kBroken}, losses);
  RANK_EXPECT(are_close(losses, alone.losses, kNear));
  expect_same(run.parameters, alone.run.parameters);
  barrier(world.group());
}

TEST(CheckpointRanks, TwoRanksGoOnInAnyLayout) {
  run_ranks(2, [](World& world) {
    for (const bool tied : {false, true}) check_ways(world, ways_of_two(), dense(tied));
    check_ways(world, expert_ways_of_two(), experts());
  });
}

TEST(CheckpointRanks, FourRanksGoOnInAnyLayout) {
  run_ranks(4, [](World& world) {
    for (const bool tied : {false, true}) check_ways(world, ways_of_four(), dense(tied));
    check_ways(world, expert_ways_of_four(), experts());
    const std::vector<Way> ways = expert_ways_of_four();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      check_dtype(world, dtype, ways[6], ways[2]);
      check_dtype(world, dtype, ways[1], ways[4]);
    }
  });
}

}  // namespace
}  // namespace tessera
