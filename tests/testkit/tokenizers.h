#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/text/tokenizer.h"

namespace tessera::testkit {

/// A tokenizer.json of the golden table: "llama3", "qwen" or "llama2".
inline nlohmann::json tokenizer_document(const std::string& name) {
  static const nlohmann::json kTable = nlohmann::json::parse(
      std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / "tokenizer.json"));
  return kTable.at("tokenizers").at(name);
}

inline Tokenizer parse_tokenizer(const nlohmann::json& document) {
  return Tokenizer::parse(document.dump(), "t.json");
}

/// The keys of a variant of the golden table, put into its base.
inline nlohmann::json tokenizer_with(const std::string& base, const nlohmann::json& keys) {
  nlohmann::json document = tokenizer_document(base);
  for (const auto& [key, value] : keys.items()) {
    if (key == "model") {
      document[key].update(value);
    } else {
      document[key] = value;
    }
  }
  return document;
}

}  // namespace tessera::testkit
