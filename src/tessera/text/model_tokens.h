#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/text/tokenizer.h"

namespace tessera TSR_API {

/// What the files beside a tokenizer.json say about tokens.
struct ModelTokens {
  std::optional<int64_t> vocab_size;  // Of the model: config.json.
  std::vector<int64_t> ends;          // Ids that end a text; the first one is written.
};

/// Reads config.json and, for the ends if that names none, generation_config.json, then
/// tokenizer_config.json; each may be missing. DataError for broken ones, and for a tokenizer
/// larger than the model's vocabulary.
ModelTokens read_model_tokens(const std::string& folder, const Tokenizer& tokenizer);

}  // namespace tessera
