#include "tessera/format/llama_presets.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

TEST(LlamaPresets, AllAreShapesThatCanBeBuilt) {
  ASSERT_EQ(llama_preset_names(),
            (std::vector<std::string>{"tiny", "llama3-8b", "llama3-70b", "tiny-moe",
                                      "tiny-qwen2-moe", "mixtral-8x7b"}));
  for (const std::string& name : llama_preset_names()) check(llama_preset(name));
  EXPECT_EQ(llama_preset("tiny").vocab_size, 256);
  EXPECT_EQ(llama_preset("llama3-70b").rope_theta, 500000);
}

TEST(LlamaPresets, UnknownNamesGetTheNearest) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { llama_preset("llama3-7b"); }),
            "preset 'llama3-7b' is unknown; choose from tiny, llama3-8b, llama3-70b, tiny-moe, "
            "tiny-qwen2-moe, mixtral-8x7b; did you mean 'llama3-8b'?");
}

}  // namespace
}  // namespace tessera
