#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The text files of a folder, joined.
struct FolderText {
  /// A file of the folder and its place in the text.
  struct File {
    std::string path;   // Begins with that of the folder.
    int64_t begin = 0;  // Offset in `text`.
  };
  std::string text;         // All files, each followed by one zero byte.
  std::vector<File> files;  // In the order of `text`, without skipped ones.
};

/// Reads the files in the order of their paths; docs/data.md says which ones are skipped. DataError
/// if a file cannot be read, if there is none, or if they exceed 4 GiB.
FolderText read_folder_text(const std::string& folder);

/// The paths of the files in a folder that are read, in order; those with a zero byte, which are
/// skipped, are among them. DataError if the folder cannot be read.
std::vector<std::string> text_files_below(const std::string& folder);

}  // namespace tessera
