#include "tessera/format/folder_json.h"

#include <filesystem>

#include "tessera/base/read_file.h"

namespace tessera {

FolderJson::FolderJson(const std::string& folder, const std::string& name)
    : path_(std::filesystem::path(folder) / name),
      source_{.origin = path_, .what = "configuration", .deepest = 32} {
  constexpr size_t kMostBytes = size_t{64} << 20U;
  if (std::filesystem::exists(path_)) json_ = parse_json(read_file(path_, kMostBytes), source_);
}

}  // namespace tessera
