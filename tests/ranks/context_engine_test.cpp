// Context parallelism of a Llama, alone and with all other strategies, compared with one process.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ranks/context_case.h"

namespace tessera {
namespace {

using testkit::run_ranks;

std::vector<ContextParallelOptions> exchanges_of_two() {
  return {{.type = "ring"},
          {.type = "all-gather"},
          {.type = "ulysses"},
          {.type = "hierarchical", .sizes = {1, 2}}};
}

// In float64 and in float32.
void check_both(World& world, ContextCase c) {
  check_context(world, c);
  c.dtype = at::kFloat;
  check_context(world, c);
}

TEST(ContextParallel, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    for (const bool documents : {false, true}) {
      for (const ContextParallelOptions& options : exchanges_of_two()) {
        check_both(world, {.options = options, .documents = documents});
        check_context(world, {.options = options, .documents = documents, .window = 5, .steps = 3});
      }
      for (const char* const layout : {"contiguous", "striped", "per-document", "sorted-blocks"}) {
        check_context(world, {.options = {.layout = layout}, .documents = documents, .steps = 3});
      }
    }
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      for (const ContextParallelOptions& options : exchanges_of_two()) {
        check_context(world, {.options = options,
                              .documents = true,
                              .slices = 2,
                              .recompute = recompute,
                              .steps = 3});
      }
    }
  });
}

TEST(ContextParallel, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_both(world, {.dims = {.cp = 4}});
    check_both(world, {.dims = {.cp = 4}, .options = {.type = "hierarchical", .sizes = {2, 2}}});
    for (const bool documents : {false, true}) {
      check_both(world, {.dims = {.cp = 2, .tp = 2}, .documents = documents});
      check_both(world, {.dims = {.dp_shard = 2, .cp = 2}, .documents = documents});
      check_both(world, {.dims = {.dp_replicate = 2, .cp = 2}, .documents = documents});
      check_both(world, {.dims = {.pp = 2, .cp = 2}, .documents = documents, .slices = 2});
    }
    check_context(world, {.dims = {.cp = 2, .tp = 2}, .sequence = false, .steps = 3});
    check_context(
        world, {.dims = {.dp_shard = 2, .cp = 2}, .fsdp = {.reshard = Reshard::kKeep}, .steps = 3});
  });
}

// Packed documents and windows need no context parallelism.
TEST(ContextParallel, OneRankTrainsOnPackedDocuments) {
  run_ranks(1, [](World& world) {
    check_context(world, {.dims = {}, .documents = true, .slices = 2, .steps = 3});
    check_context(world, {.dims = {}, .documents = true, .slices = 2, .window = 5, .steps = 3});
  });
}

TEST(ContextParallel, EightRanksTrainAsOneProcess) {
  run_ranks(8, [](World& world) {
    check_context(
        world, {.dims = {.pp = 2, .cp = 2, .tp = 2}, .documents = true, .slices = 2, .steps = 3});
    check_context(world, {.dims = {.dp_replicate = 2, .dp_shard = 2, .cp = 2}, .steps = 3});
  });
}

int64_t held_by(const Engine& engine) {
  int64_t elements = 0;
  for (const Parameter& parameter : engine.parameters()) elements += parameter.tensor.numel();
  return elements;
}

// Without ranks that only share rows, the ranks of a sequence hold the shards.
void check_shards(World& world, const ContextCase& c) {
  const int64_t all = Llama(context_config(c)).parameter_count();
  const int64_t shards = c.dims.shards();
  const int64_t held = held_by(context_engine(world, c));
  // Each unit is cut into equal pieces, of which the last ones may be padding.
  RANK_EXPECT(held <= all / shards + 8 && held >= all / shards - 8 * shards)
      << held << " of " << all << ", " << text_of(c);
  check_context(world, c);
}

TEST(ContextParallel, RanksOfASequenceHoldShards) {
  run_ranks(2, [](World& world) {
    for (const bool documents : {false, true}) {
      check_shards(world, {.dims = {.cp = 2, .shard_cp = true}, .documents = documents});
    }
    const ContextCase zero1{
        .dims = {.cp = 2, .shard_cp = true}, .fsdp = {.reshard = Reshard::kKeep}, .steps = 3};
    check_shards(world, zero1);
    RANK_EXPECT(held_by(context_engine(world, {})) == Llama(context_config({})).parameter_count())
        << "replicas";
  });
}

TEST(ContextParallel, RanksOfASequenceHoldShardsWithOtherStrategies) {
  run_ranks(4, [](World& world) {
    for (const ParallelDims& dims : {ParallelDims{.cp = 4, .shard_cp = true},
                                     ParallelDims{.dp_replicate = 2, .cp = 2, .shard_cp = true}}) {
      check_shards(world, {.dims = dims, .steps = 3});
    }
    check_context(world, {.dims = {.cp = 2, .tp = 2, .shard_cp = true}, .steps = 3});
    check_context(world, {.dims = {.pp = 2, .cp = 2, .shard_cp = true}, .slices = 2, .steps = 3});
  });
}

// Bytes that this rank sends to others of its sequence in a step.
int64_t exchanged_bytes(World& world, const ContextCase& c) {
  Engine engine = context_engine(world, c);
  const auto sum = [&] {
    int64_t bytes = 0;
    for (const auto& [group, sent] : engine.sent_bytes()) {
      if (group.starts_with("cp")) bytes += sent;
    }
    return bytes;
  };
  const int64_t before = sum();
  const ContextBatch batch = context_batch(c, 0);
  engine.train_step(batch.inputs.to(testkit::device()), batch.targets.to(testkit::device()), 1,
                    batch.documents);
  return sum() - before;
}

TEST(ContextParallel, SelectiveRecomputeExchangesNothingTwice) {
  run_ranks(2, [](World& world) {
    std::vector<ContextParallelOptions> exchanges = exchanges_of_two();
    exchanges.push_back({.type = "hierarchical", .sizes = {2, 1}});
    for (const ContextParallelOptions& options : exchanges) {
      ContextCase c{.options = options};
      const int64_t once = exchanged_bytes(world, c);
      c.recompute = Recompute::kSelective;
      RANK_EXPECT(once > 0 && exchanged_bytes(world, c) == once) << text_of(c);
      c.recompute = Recompute::kFull;
      RANK_EXPECT(exchanged_bytes(world, c) > once) << text_of(c);
    }
  });
}

// The spans of one action of a unit, in the order of their start.
std::vector<TimeSpan> spans_of(const UnitRecord& record, const std::string& unit,
                               UnitAction action) {
  std::vector<TimeSpan> spans;
  for (const UnitEvent& event : record.events) {
    if (event.unit == unit && event.action == action) spans.push_back(event.time);
  }
  std::ranges::sort(spans, {}, &TimeSpan::start);
  return spans;
}

UnitRecord recorded_step(World& world, const ContextCase& c) {
  Engine engine = context_engine(world, c);
  UnitRecord record;
  engine.record(1, {.units = [&](const UnitRecord& made) { record = made; }});
  const ContextBatch batch = context_batch(c, 0);
  engine.train_step(batch.inputs.to(testkit::device()), batch.targets.to(testkit::device()), 1,
                    batch.documents);
  return record;
}

bool overlap(const TimeSpan& a, const TimeSpan& b) {
  return a.start < b.end && b.start < a.end;
}

// Each pass of a ring of n ranks has n products. The keys of the next one are sent before a product
// begins, and the rank waits for them after it.
void check_ring(const UnitRecord& record, const std::string& unit, size_t ranks) {
  using enum UnitAction;
  const std::vector<TimeSpan> products = spans_of(record, unit, kAttend);
  const std::vector<TimeSpan> exchanges = spans_of(record, unit, kExchange);
  const std::vector<TimeSpan> waits = spans_of(record, unit, kWait);
  RANK_EXPECT(products.size() == 2 * ranks) << unit;
  const size_t passed = (ranks - 1) + (ranks - 1 + ranks);  // Keys; keys and their gradients.
  RANK_EXPECT(exchanges.size() == passed && waits.size() == passed) << unit;
  for (size_t step = 0; step + 1 < ranks; ++step) {
    const TimeSpan& product = products[step];
    RANK_EXPECT(exchanges[step].start <= product.start) << unit << ", step " << step;
    RANK_EXPECT(waits[step].start >= product.end) << unit << ", step " << step;
    RANK_EXPECT(overlap({exchanges[step].start, waits[step].end}, product)) << unit;
  }
  // In the backward pass all but the last product have keys, and all but the first also gradients
  // in flight.
  for (size_t step = 0; step < ranks; ++step) {
    const TimeSpan& product = products[ranks + step];
    const auto posted = std::ranges::count_if(
        exchanges, [&](const TimeSpan& span) { return span.start <= product.start; });
    const auto done = std::ranges::count_if(
        waits, [&](const TimeSpan& span) { return span.end <= product.start; });
    const int64_t in_flight = (step + 1 < ranks ? 1 : 0) + (step > 0 ? 1 : 0);
    RANK_EXPECT(posted - done == in_flight) << unit << ", backward step " << step;
  }
}

bool any_overlap(const UnitRecord& record) {
  return std::ranges::any_of(record.events, [&](const UnitEvent& exchange) {
    return exchange.action == UnitAction::kExchange &&
           std::ranges::any_of(record.events, [&](const UnitEvent& product) {
             return product.action == UnitAction::kAttend && overlap(exchange.time, product.time);
           });
  });
}

TEST(ContextParallel, ExchangesAreInFlightDuringProducts) {
  run_ranks(4, [](World& world) {
    const UnitRecord ring = recorded_step(world, {.dims = {.cp = 4}});
    for (const char* const unit : {"model.layers.0", "model.layers.1"}) check_ring(ring, unit, 4);
    RANK_EXPECT(any_overlap(ring));
    for (const UnitEvent& event : ring.events) {
      RANK_EXPECT(event.unit.starts_with("model.layers.")) << event.unit;
    }
  });
}

// Two key-value heads: the second ones are gathered during the product of the first ones.
TEST(ContextParallel, GathersAreInFlightDuringProducts) {
  run_ranks(2, [](World& world) {
    using enum UnitAction;
    const UnitRecord gathered = recorded_step(world, {.options = {.type = "all-gather"}});
    const std::vector<TimeSpan> products = spans_of(gathered, "model.layers.0", kAttend);
    const std::vector<TimeSpan> exchanges = spans_of(gathered, "model.layers.0", kExchange);
    RANK_EXPECT(products.size() == 4 && exchanges.size() == 6);
    RANK_EXPECT(exchanges[1].start <= products[0].start) << "the next heads";
    const UnitRecord ulysses = recorded_step(world, {.options = {.type = "ulysses"}});
    RANK_EXPECT(spans_of(ulysses, "model.layers.0", kAttend).size() == 2);
    RANK_EXPECT(spans_of(ulysses, "model.layers.0", kExchange).size() == 4);
  });
}

// All targets count, so nobody counts them: the ranks only sum up their losses.
TEST(ContextParallel, AModelWithoutIgnoredTargetsCountsNone) {
  run_ranks(2, [](World& world) {
    for (const bool ignores : {false, true}) {
      const ContextCase c{.dims = {.dp_replicate = 2}};
      Model model = llama_model(context_config(c), {.device = testkit::device()});
      model.fill = [&](const Parameters& all) { fill_llama(all, context_config(c), kSeed); };
      if (!ignores) model.ignored_target.reset();
      Engine engine = compose(model, realize(train_plan(2, c.dims), world),
                              {.batch = kContextRows, .device = testkit::device()});
      const ContextBatch batch = context_batch(c, 0);
      const Span rows = engine.rows();
      const auto own = [&](const at::Tensor& all) {
        return all.slice(0, rows.begin, rows.end).to(testkit::device());
      };
      engine.train_step(own(batch.inputs), own(batch.targets));
      RANK_EXPECT(engine.sent_bytes().contains("batch") == ignores);
    }
  });
}

}  // namespace
}  // namespace tessera
