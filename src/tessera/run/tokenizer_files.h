#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Whether a file of this name in a Hugging Face folder belongs to its tokenizer, or says which
/// tokens end a text.
bool is_tokenizer_file(std::string_view name);

/// Whether the folder has a tokenizer.json.
bool has_tokenizer(const std::string& folder);

/// Copies these files from one folder to another, which is created if needed. If there is no
/// generation_config.json, it writes one with the tokens that end a text. Does nothing if
/// `from` has no tokenizer.json. DataError if a file cannot be read or written.
void copy_tokenizer(const std::string& from, const std::string& to, int64_t vocab_size);

/// The folder of the tokenizer.json by which a model reads text: a Hugging Face folder, a run
/// directory or a checkpoint. "" if there is none.
std::string find_tokenizer(const std::string& model);

}  // namespace tessera
