#include "tessera/model/llama_folder.h"

#include <filesystem>

#include "tessera/base/read_file.h"
#include "tessera/format/weight_files.h"

namespace tessera {

LlamaConfig read_llama_config(const std::string& folder) {
  constexpr size_t kMost = size_t{1} << 20;  // Far more than the size of any config.json.
  const std::string path = std::filesystem::path(folder) / "config.json";
  return parse_llama_config(read_file(path, kMost), path);
}

Llama load_llama(const std::string& folder, const LlamaOptions& options) {
  Llama model(read_llama_config(folder), options);
  model.load(WeightFiles(folder));
  return model;
}

}  // namespace tessera
