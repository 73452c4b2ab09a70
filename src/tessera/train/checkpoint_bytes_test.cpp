// What a rank of 64 reads of a checkpoint that 8 ranks saved. No rank but this process is needed:
// the plans say what each one holds.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/checkpoint/load.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tessera/model/llama_units.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/compose.h"
#include "tessera/train/model_stage.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

LlamaConfig dense() {
  return {.vocab_size = 2048,
          .hidden_size = 256,
          .intermediate_size = 1024,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .num_key_value_heads = 8,
          .head_dim = 32};
}

LlamaConfig experts() {
  LlamaConfig config = dense();
  config.model_type = "mixtral";
  config.num_experts = 8;
  config.num_experts_per_tok = 2;
  return config;
}

// Without memory.
Parameters parameters_of_rank(const LlamaConfig& config, const ParallelDims& dims, int64_t rank) {
  const Plan plan = train_plan(dims.world(), dims);
  const Model model = llama_model(config);
  std::vector<ModelStage> stages = build_stages(model, one_rank(), GroupRank{0});
  place_parameters(stages, model, plan, GlobalRank{rank});
  return trained_parameters(stages);
}

// The names of a parameter and of its moments.
std::vector<std::string> names_of(const Parameter& parameter) {
  return {parameter.name, state_name(parameter.name, "exp_avg"),
          state_name(parameter.name, "exp_avg_sq")};
}

std::vector<HeldTensor> held_by(const LlamaConfig& config, const ParallelDims& dims, int64_t rank) {
  std::vector<HeldTensor> held;
  for (const Parameter& parameter : parameters_of_rank(config, dims, rank)) {
    const Part& part = parameter.place.part;
    for (const std::string& name : names_of(parameter)) {
      held.push_back({name, DType::kF32, part.shape(), part.boxes()});
    }
  }
  return held;
}

void save_on(const ParallelDims& dims, const LlamaConfig& config, const std::string& path) {
  std::vector<std::vector<HeldTensor>> ranks;
  for (int64_t rank = 0; rank < dims.world(); ++rank) {
    ranks.push_back(held_by(config, dims, rank));
  }
  const auto plan = plan_save(ranks);
  CheckpointDraft draft(path, 0);
  CheckpointIndex index;
  std::vector<std::byte> zeros;
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    merge(index, write_shard(draft.path(), rank, plan[rank], [&](size_t i) {
            zeros.resize(static_cast<size_t>(plan[rank][i].num_bytes()));
            return std::span<const std::byte>(zeros);
          }));
  }
  draft.publish(index);
}

/// Bytes that this process has read so far, as the kernel counts them.
int64_t bytes_read_by_process() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t value = 0;
  file >> key >> value;
  EXPECT_EQ(key, "rchar:");
  return value;
}

struct Read {
  int64_t held = 0;
  int64_t counted = 0;    // By the checkpoint.
  int64_t by_kernel = 0;  // Without the index.
};

Read load_rank(const LlamaConfig& config, const ParallelDims& dims, int64_t rank,
               const std::string& path) {
  Read read;
  CheckpointEntries entries;
  for (const Parameter& parameter : parameters_of_rank(config, dims, rank)) {
    const Part& part = parameter.place.part;
    int64_t elements = 0;
    for (const Box& box : part.boxes()) elements += box.numel();
    for (const std::string& name : names_of(parameter)) {
      entries.emplace_back(name, at::ones({elements}), part);
    }
    read.held += 3 * 4 * elements;
  }
  const int64_t before = bytes_read_by_process();
  const Checkpoint checkpoint(path);
  load(checkpoint, entries);
  const auto index = static_cast<int64_t>(fs::file_size(fs::path(path) / CheckpointIndex::kFile));
  read.counted = checkpoint.bytes_read();
  read.by_kernel = bytes_read_by_process() - before - index;
  for (const CheckpointEntry& entry : entries) EXPECT_EQ(entry.tensor.abs().sum().item<float>(), 0);
  return read;
}

TEST(CheckpointBytes, ARankOf64ReadsWhatItHolds) {
  const testkit::TemporaryFolder folder;
  const std::vector<ParallelDims> from{{.dp_shard = 8}, {.dp_shard = 2, .tp = 4}};
  const std::vector<ParallelDims> to{{.dp_shard = 64},
                                     {.dp_shard = 8, .tp = 8},
                                     {.dp_replicate = 2, .dp_shard = 4, .cp = 2, .tp = 4},
                                     {.dp_replicate = 64}};
  for (size_t i = 0; i < from.size(); ++i) {
    const std::string path = folder.path(concat("checkpoint", i));
    save_on(from[i], dense(), path);
    for (const ParallelDims& dims : to) {
      for (const int64_t rank : {0, 37, 63}) {
        SCOPED_TRACE(concat(from[i], " to rank ", rank, " of ", dims));
        const Read read = load_rank(dense(), dims, rank, path);
        EXPECT_GT(read.held, 0);
        EXPECT_EQ(read.counted, read.held);
        EXPECT_LE(static_cast<double>(read.by_kernel), 1.05 * static_cast<double>(read.held));
      }
    }
  }
}

TEST(CheckpointBytes, ARankOf64ReadsItsExperts) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.path("checkpoint");
  save_on({.dp_shard = 8, .ep = 2}, experts(), path);
  for (const ParallelDims& dims : {ParallelDims{.dp_shard = 64, .ep = 8},
                                   ParallelDims{.dp_shard = 16, .tp = 4, .ep = 4, .etp = 2}}) {
    SCOPED_TRACE(dims);
    const Read read = load_rank(experts(), dims, 41, path);
    EXPECT_EQ(read.counted, read.held);
    EXPECT_LE(static_cast<double>(read.by_kernel), 1.05 * static_cast<double>(read.held));
  }
}

}  // namespace
}  // namespace tessera
