#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

/// Runs of `tessera train`, started as users start them.
namespace tessera {

inline const std::string kModels = TESSERA_GOLDEN_DIR "/llama/";

inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

/// tests/gpu.sh asks for one.
inline std::string device_flag() {
  const char* const device = std::getenv("TESSERA_TEST_DEVICE");
  return device == nullptr ? "" : concat(" --device ", device);
}
inline bool is_on_gpu() {
  return device_flag() == " --device cuda";
}

class TrainRun : public testing::Test {
 protected:
  const testkit::TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");

  static testkit::Finished tessera(const std::string& arguments) {
    return testkit::run(TESSERA_PROGRAM + arguments);
  }
  static std::vector<std::string> words_of(const std::string& arguments) {
    std::vector<std::string> words{TESSERA_PROGRAM};
    for (const std::string_view word : split(arguments, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    return words;
  }
  /// The lines of metrics.jsonl.
  std::vector<nlohmann::json> steps() const {
    std::vector<nlohmann::json> steps;
    std::ifstream file(run_ + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line));
    return steps;
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    for (const nlohmann::json& step : steps()) losses.push_back(step["loss"]);
    return losses;
  }
};

}  // namespace tessera
