#pragma once

#include <stdlib.h>  // mkdtemp is POSIX.

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera::testkit {

/// An empty folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tessera-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const { return std::filesystem::path(path_) / name; }

  /// Writes a file with this content; returns its path.
  std::string file(std::string_view name, std::string_view content) const {
    const std::string at = path(name);
    std::ofstream(at, std::ios::binary) << content;
    return at;
  }

 private:
  std::string path_;
};

}  // namespace tessera::testkit
