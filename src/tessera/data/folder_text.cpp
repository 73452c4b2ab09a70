#include "tessera/data/folder_text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/mapped_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{4} << 30;  // Held in memory.

bool is_hidden(const std::string& name) {
  return name.starts_with(".");
}

bool is_made_by_tools(const std::string& name) {
  constexpr std::array<std::string_view, 3> kNames{"build", "node_modules", "__pycache__"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("build-") ||
         name.starts_with("cmake-build-");
}

// Skips symbolic links: they may repeat files, form a cycle or leave the folder.
std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> files;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::end(at); ++at) {
    const std::string name = at->path().filename();
    const fs::file_type type = at->symlink_status().type();
    if (type == fs::file_type::directory) {
      if (is_hidden(name) || is_made_by_tools(name)) at.disable_recursion_pending();
    } else if (type == fs::file_type::regular && !is_hidden(name) && !name.ends_with(".svg")) {
      files.push_back(at->path());
    }
  }
  std::ranges::sort(files, {}, [](const fs::path& path) { return path.native(); });
  return files;
}

void append(FolderText& to, const fs::path& path) {
  const MappedFile file(path);
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
  if (content.empty() || content.find('\0') != std::string_view::npos) return;  // Not a text file.
  to.files.push_back({path, std::ssize(to.text)});
  to.text += content;
  to.text += '\0';
}

void check_size(const std::string& folder, int64_t so_far, int64_t more) {
  if (more <= kMostBytes - so_far) return;
  throw DataError(concat(folder, " holds at least ", with_thousands(so_far + more),
                         " bytes of text; a folder is read into memory and may hold at most ",
                         with_thousands(kMostBytes), "; join the files into one"));
}

FolderText join_texts(const std::string& folder) {
  FolderText joined;
  for (const fs::path& path : files_below(folder)) {
    check_size(folder, std::ssize(joined.text), static_cast<int64_t>(fs::file_size(path)));
    append(joined, path);
  }
  return joined;
}

}  // namespace

std::vector<std::string> text_files_below(const std::string& folder) {
  try {
    const std::vector<fs::path> files = files_below(folder);
    return {files.begin(), files.end()};
  } catch (const fs::filesystem_error& error) {
    throw DataError(concat(folder, ": ", error.what()));
  }
}

FolderText read_folder_text(const std::string& folder) {
  try {
    FolderText joined = join_texts(folder);
    if (joined.files.empty()) throw DataError(concat(folder, " holds no text files"));
    return joined;
  } catch (const fs::filesystem_error& error) {
    throw DataError(concat(folder, ": ", error.what()));
  }
}

}  // namespace tessera
