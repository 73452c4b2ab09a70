// Context parallelism of a Llama, alone and with all other strategies, compared with one process.
#include <gtest/gtest.h>

#include "tests/ranks/context_case.h"

namespace tessera {
namespace {

using testkit::run_ranks;

TEST(ContextParallel, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    for (const bool documents : {false, true}) {
      for (const char* const type : {"ring", "all-gather", "ulysses"}) {
        check_context(world, {.options = {.type = type}, .documents = documents});
      }
      check_context(world,
                    {.options = {.type = "hierarchical", .sizes = {1, 2}}, .documents = documents});
      for (const char* const layout : {"contiguous", "striped", "per-document", "sorted-blocks"}) {
        check_context(world, {.options = {.layout = layout}, .documents = documents, .steps = 3});
      }
    }
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      for (const char* const type : {"ring", "all-gather", "ulysses"}) {
        check_context(world, {.options = {.type = type},
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
    check_context(world, {.dims = {.cp = 4}});
    check_context(world, {.dims = {.cp = 4}, .options = {.type = "hierarchical", .sizes = {2, 2}}});
    for (const bool documents : {false, true}) {
      check_context(world, {.dims = {.cp = 2, .tp = 2}, .documents = documents});
      check_context(world, {.dims = {.dp_shard = 2, .cp = 2}, .documents = documents});
      check_context(world, {.dims = {.dp_replicate = 2, .cp = 2}, .documents = documents});
      check_context(world, {.dims = {.pp = 2, .cp = 2}, .documents = documents, .slices = 2});
    }
    check_context(world, {.dims = {.cp = 2, .tp = 2}, .sequence = false, .steps = 3});
    check_context(
        world, {.dims = {.dp_shard = 2, .cp = 2}, .fsdp = {.reshard = Reshard::kKeep}, .steps = 3});
  });
}

// Packed documents need no context parallelism.
TEST(ContextParallel, OneRankTrainsOnPackedDocuments) {
  run_ranks(1, [](World& world) {
    check_context(world, {.dims = {}, .documents = true, .slices = 2, .steps = 3});
  });
}

TEST(ContextParallel, EightRanksTrainAsOneProcess) {
  run_ranks(8, [](World& world) {
    check_context(
        world, {.dims = {.pp = 2, .cp = 2, .tp = 2}, .documents = true, .slices = 2, .steps = 3});
    check_context(world, {.dims = {.dp_replicate = 2, .dp_shard = 2, .cp = 2}, .steps = 3});
  });
}

}  // namespace
}  // namespace tessera
