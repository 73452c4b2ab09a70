#include "cli/files.h"

#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::cli {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw DataError(concat("cannot write ", path, "; is its folder there and writable?"));
}

bool lies_in(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path from = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !from.empty() && *from.begin() != "..";
}

}  // namespace tessera::cli
