#include "cli/verify_files.h"

#include <vector>

#include "cli/progress_bar.h"

namespace tessera::cli {

void verify_files(const Checkpoint& checkpoint, std::string_view begin) {
  const auto& files = checkpoint.index().files;
  std::vector<size_t> chosen;
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!files[i].path.starts_with(begin)) continue;
    chosen.push_back(i);
    bytes += files[i].bytes;
  }
  ProgressBar bar("verifying", bytes);
  for (const size_t i : chosen) checkpoint.verify(i, [&](int64_t block) { bar.add(block); });
}

}  // namespace tessera::cli
