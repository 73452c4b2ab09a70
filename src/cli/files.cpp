#include "cli/files.h"

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

}  // namespace tessera::cli
