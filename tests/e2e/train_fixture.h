#pragma once

#include <map>

#include "tests/e2e/run_fixture.h"

/// `tessera train` on a golden model and its tokens.
namespace tessera {

/// Path and content of every file below a folder.
inline std::map<std::string, std::string> content_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      content[entry.path().lexically_relative(folder)] = text_of(entry.path());
    }
  }
  return content;
}

inline std::string as_u16(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes += static_cast<char>(token & 255);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

inline const nlohmann::json& peer() {
  static const nlohmann::json table =
      nlohmann::json::parse(text_of(TESSERA_GOLDEN_DIR "/llama_losses.json"));
  return table;
}

class Train : public TrainRun {
 protected:
  const std::string tokens_ = folder_.file("tokens.bin", as_u16(peer()["tokens"]));

  /// The fixed interface, in which a model and tokens are given.
  std::string fixed(const std::string& more = "", const std::string& model = "untied") const {
    return concat(" train --model ", kModels, model, " --data ", tokens_, " --nproc 1 --steps 20",
                  " --batch ", peer()["batch"], " --seq ", peer()["seq"], " --lr ", peer()["lr"],
                  " --weight-decay ", peer()["weight_decay"],
                  " --no-shuffle --no-clip --threads 1 --dtype fp32 --run-dir ", run_,
                  device_flag(), " ", more);
  }
  /// The losses of a run of the preset, from initial values on this project's sources.
  std::vector<double> losses_of(const std::string& flags) const {
    const testkit::Finished result =
        tessera(concat(" train --preset tiny --no-sample --run.save=false --train.validate_every=0",
                       " --overwrite --threads 1 --run-dir ", run_, device_flag(), " ", flags));
    EXPECT_EQ(result.code, 0) << flags << "\n" << result.err;
    return losses();
  }
  /// Nothing is left of what was refused, and the message names what is wrong.
  void expect_refused(const std::string& arguments, int code, const std::string& words) const {
    const testkit::Finished result = tessera(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_FALSE(std::filesystem::exists(run_)) << arguments;
  }
};

}  // namespace tessera
