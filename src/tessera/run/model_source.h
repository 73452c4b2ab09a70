#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/llama_config.h"

namespace tessera TSR_API {

/// Where the weights of a model are.
struct ModelSource {
  std::string path;            // A Hugging Face folder or a checkpoint.
  bool is_checkpoint = false;  // Otherwise a Hugging Face folder.
};

/// The model that a path stands for: a Hugging Face folder, a checkpoint, or a run directory, where
/// the final weights come before the newest checkpoint. DataError if there is none.
ModelSource find_model(const std::string& path);

/// The text of config.json of the model in a checkpoint of `tessera train`; DataError if it has
/// none.
std::string stored_model_text(const Checkpoint& checkpoint);
/// The model of a checkpoint.
LlamaConfig stored_model_config(const Checkpoint& checkpoint);

}  // namespace tessera
