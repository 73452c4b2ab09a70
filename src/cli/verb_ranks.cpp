#include "cli/verb_ranks.h"

#include <unistd.h>

#include <filesystem>

#include "cli/terminal.h"

namespace tessera::cli {

LaunchOptions verb_ranks(const std::string& verb, int64_t nproc,
                         const std::vector<std::string>& arguments) {
  LaunchOptions options{.nproc = nproc};
  options.command = {std::filesystem::read_symlink("/proc/self/exe"), verb};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.foreground = GlobalRank{0};
  options.out_color = color_mode("auto", STDOUT_FILENO);
  options.err_color = color_mode("auto", STDERR_FILENO);
  return options;
}

}  // namespace tessera::cli
