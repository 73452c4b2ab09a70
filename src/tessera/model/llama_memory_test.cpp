// A separate program: the counting allocator stays until the end of the process.
#include <gtest/gtest.h>

#include "tessera/format/llama_presets.h"
#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::LiveMemory;

TEST(LlamaMemory, SeventyBillionParametersCostNothing) {
  const int64_t before = LiveMemory::watch().bytes();
  const Llama whole(llama_preset("llama3-70b"), {.dtype = at::kBFloat16});
  EXPECT_EQ(whole.parameter_count(), 70'553'706'496);
  EXPECT_TRUE(whole.is_unallocated());
  EXPECT_EQ(LiveMemory::watch().bytes(), before);
}

TEST(LlamaMemory, IsChangedWithoutMemory) {
  const int64_t before = LiveMemory::watch().bytes();
  Llama model(llama_preset("llama3-70b"));
  model.to(at::kBFloat16);
  EXPECT_EQ(model.named_parameters()[0].tensor.scalar_type(), at::kBFloat16);
  EXPECT_EQ(LiveMemory::watch().bytes(), before);
}

// Each value is in memory once, and temporary memory of conversions is freed at the end.
TEST(LlamaMemory, FillingTakesTheParametersAndNothingElse) {
  LlamaConfig config = llama_preset("llama3-70b");
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
