#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The text files of a folder joined, each followed by one zero byte.
struct FolderText {
  /// A file of the folder and its place in the text.
  struct File {
    std::string path;
    int64_t begin = 0;  // Offset in `text`.
  };
  std::string text;
  std::vector<File> files;
};

/// Reads the files in the order of their paths; docs/data.md says which ones are skipped. DataError
/// if a file cannot be read, if there is none, or if they exceed 4 GiB.
FolderText read_folder_text(const std::string& folder);

/// The paths of the files in a folder that are read, in order; those with a zero byte, which are
/// skipped, are among them. DataError if the folder cannot be read.
std::vector<std::string> text_files_below(const std::string& folder);

}  // namespace tessera
