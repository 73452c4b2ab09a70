#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/model/llama.h"

namespace tessera TSR_API {

/// Reads the config.json of a Hugging Face folder; DataError if there is none.
LlamaConfig read_llama_config(const std::string& folder);

/// Loads the Llama of a Hugging Face folder, with its weights.
Llama load_llama(const std::string& folder, const LlamaOptions& options = {});

}  // namespace tessera
