// `tessera export` as users run it.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

TEST_F(Train, ExportsItsWeights) {
  ASSERT_EQ(tessera(fixed("--run.save=true", "grouped_tied")).code, 0);
  const std::string out = folder_.path("out");
  const Finished exported = tessera(concat(" export ", run_, " ", out, " --shard-size 20KB"));
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
  EXPECT_EQ(text_of(out + "/config.json"), text_of(run_ + "/model/config.json"));
  const auto listed = [](const std::string& folder) {
    std::map<std::string, json> tensors;
    for (json tensor : json::parse(tessera(" inspect --json " + folder).out)["tensors"]) {
      tensor.erase("file");
      tensors[tensor["name"]] = tensor;
    }
    return tensors;
  };
  EXPECT_EQ(listed(out), listed(run_ + "/model"));

  const auto before = content_of(out);
  EXPECT_EQ(tessera(concat(" export ", run_, " ", out)).code, 2);
  EXPECT_EQ(content_of(out), before);
  // What was exported can be trained on.
  const Finished again =
      tessera(concat(" train --model ", out, " --data ", tokens_,
                     " --batch 2 --seq 8 --steps 1 --run-dir ", folder_.path("again")));
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(Train, ExportRefusesWhatHoldsNoWeights) {
  const std::string out = folder_.path("out");
  EXPECT_EQ(tessera(" export " + run_ + " " + out).code, 1);
  ASSERT_EQ(tessera(fixed("--train.steps=1")).code, 0);
  const Finished result = tessera(" export " + run_ + " " + out);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("--run.save=true"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(tessera(" export " + run_).code, 2);
  EXPECT_EQ(tessera(concat(" export ", run_, " ", out, " --shard-size 3XB")).code, 2);
}

}  // namespace
}  // namespace tessera
