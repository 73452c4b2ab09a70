#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The texts of a folder, one after the other, each followed by one byte 0.
struct FolderText {
  struct File {
    std::string path;
    int64_t begin = 0;  // In the text.
  };
  std::string text;
  std::vector<File> files;
};

/// In the order of their paths. What is passed over says docs/data.md. DataError where a text
/// cannot be read, where there is none, and where they are more than 4 GiB.
FolderText read_folder_text(const std::string& folder);

}  // namespace tessera
