#include "tessera/run/model_source.h"

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/run/run_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// config.json is written after the weights: if it exists, they are complete.
bool is_model(const fs::path& folder) {
  return fs::exists(folder / "config.json") && !is_checkpoint(folder);
}

}  // namespace

ModelSource find_model(const std::string& path) {
  if (is_model(path)) return {path};
  const fs::path model = fs::path(path) / RunFolder::kModel;
  if (is_model(model)) return {model.string()};
  try {
    return {find_checkpoint(path), /*is_checkpoint=*/true};
  } catch (const DataError&) {
    const bool is_run = fs::exists(fs::path(path) / RunFolder::kMetrics);
    throw DataError(concat(
        path, is_run ? " holds no weights and no checkpoint; train again with --run.save=true or "
                       "--save-every N"
                     : " is neither a Hugging Face folder, nor a run directory, nor a checkpoint"));
  }
}

std::string stored_model_text(const Checkpoint& checkpoint) {
  const auto config = checkpoint.index().state.find("config.json");
  if (config != checkpoint.index().state.end()) return config->second;
  throw DataError(concat(checkpoint.folder(),
                         " holds no config.json of a model; was it saved by tessera train?"));
}

LlamaConfig stored_model_config(const Checkpoint& checkpoint) {
  return parse_llama_config(stored_model_text(checkpoint), checkpoint.folder());
}

}  // namespace tessera
