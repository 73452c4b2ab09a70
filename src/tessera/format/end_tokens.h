#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

class JsonField;

/// The tokens that end a text, of a Hugging Face folder: `eos_token_id` of generation_config.json,
/// or else of config.json, or else `eos_token` of tokenizer_config.json; none if none of them names
/// one. DataError for ids outside the vocabulary.
std::vector<int64_t> end_tokens(const std::string& folder, int64_t vocab_size);

/// The same of one file's content.
std::vector<int64_t> end_tokens(const JsonField& config, int64_t vocab_size);

}  // namespace tessera
