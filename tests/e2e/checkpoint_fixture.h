#pragma once

#include "tests/e2e/run_fixture.h"

/// Checkpoints of `tessera train`.
namespace tessera {

/// With ./tessera test --soak the long rounds, too.
inline int rounds(int usual, int soak) {
  const char* const wanted = std::getenv("TESSERA_SOAK");
  return wanted != nullptr && *wanted != '\0' ? soak : usual;
}

/// Tokens of the golden models, whose vocabulary has at least 40.
inline std::string some_tokens() {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) {
    bytes += static_cast<char>((i * 7 + i / 13) % 40);
    bytes += '\0';
  }
  return bytes;
}

class Checkpointed : public TrainRun {
 protected:
  const std::string checkpoints_ = run_ + "/checkpoints";
  const std::string tokens_ = folder_.file("tokens.bin", some_tokens());

  std::string train(const std::string& more, const std::string& model = "untied") const {
    return concat(" train --model ", kModels, model, " --data ", tokens_,
                  " --batch 4 --seq 8 --lr 1e-2 --threads 1 --dtype fp64 --run-dir ", run_, " ",
                  more);
  }
  std::string resume_to(int64_t steps) const {
    return concat(" train --resume --run-dir ", run_, " --steps ", steps);
  }
  std::vector<double> losses() const {
    const std::vector<nlohmann::json> all = steps();
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["step"], i) << "each step once";
    return TrainRun::losses();
  }
  std::string latest() const {
    const std::string name = text_of(checkpoints_ + "/latest");
    return checkpoints_ + "/" + name.substr(0, name.find('\n'));
  }
  void expect_ok(const std::string& arguments) const {
    const testkit::Finished result = tessera(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }
  void expect_refused(const std::string& arguments, int code, const std::string& words) const {
    const testkit::Finished result = tessera(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
  }
};

}  // namespace tessera
