// A program of its own: the allocator that counts stays until the end of the process.
#include <gtest/gtest.h>

#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::LiveMemory;

LlamaConfig llama3_70b() {
  return {.vocab_size = 128256,
          .hidden_size = 8192,
          .intermediate_size = 28672,
          .num_hidden_layers = 80,
          .num_attention_heads = 64,
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 8192};
}

TEST(LlamaMemory, SeventyBillionParametersCostNothing) {
  const int64_t before = LiveMemory::watch().bytes();
  const Llama whole(llama3_70b(), {.dtype = at::kBFloat16});
  EXPECT_EQ(whole.parameter_count(), 70'553'706'496);
  EXPECT_TRUE(whole.is_hollow());
  EXPECT_EQ(LiveMemory::watch().bytes(), before);
}

TEST(LlamaMemory, AStageIsChangedWithoutMemory) {
  const int64_t before = LiveMemory::watch().bytes();
  Llama stage(llama3_70b(),
              {.part = LlamaPart{.begin = 30, .end = 40, .embedding = false, .head = false}});
  stage.to(at::kBFloat16);
  EXPECT_EQ(stage.parameter_count(), 10 * 855'654'400LL);
  EXPECT_EQ(stage.named_parameters()[0].tensor.scalar_type(), at::kBFloat16);
  EXPECT_EQ(LiveMemory::watch().bytes(), before);
}

// Each value is in memory once, and what a conversion needs besides is gone at the end.
TEST(LlamaMemory, FillingTakesTheParametersAndNothingElse) {
  LlamaConfig config = llama3_70b();
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  const testkit::TemporaryFolder folder;
  const int64_t before = LiveMemory::watch().bytes();
  Llama model(config);
  model.initialize(1);
  EXPECT_EQ(LiveMemory::watch().bytes() - before, model.parameter_count() * 4);
  model.save(folder.path());
  Llama loaded(config, {.dtype = at::kBFloat16});
  loaded.load(WeightFiles(folder.path()));
  EXPECT_EQ(LiveMemory::watch().bytes() - before, model.parameter_count() * 6);
}

}  // namespace
}  // namespace tessera
