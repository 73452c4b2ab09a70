#include "tessera/base/read_file.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {

std::string read_file(const std::string& path, size_t most) {
  TSR_CHECK(!std::filesystem::is_directory(path), path, " is a folder; name a file in it");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(concat("cannot open ", path, "; is it there and readable?"));
  std::string text;
  std::vector<char> part(1 << 20);
  while (file && text.size() <= most) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) throw DataError(concat("cannot read ", path));
  return text;
}

}  // namespace tessera
