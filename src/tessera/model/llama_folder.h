#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/model/llama.h"

namespace tessera TSR_API {

/// The shape in the config.json of a Hugging Face folder; DataError where there is none.
LlamaConfig read_llama_config(const std::string& folder);

/// The Llama of a Hugging Face folder, with its weights.
Llama load_llama(const std::string& folder, const LlamaOptions& options = {});

}  // namespace tessera
