// `tessera-torch`: the verbs that need LibTorch. `tessera` starts it; nobody has to.
#include <algorithm>
#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  return tessera::cli::guarded([&] {
    const std::string verb = argc < 2 ? "" : argv[1];
    const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
    if (verb == "train") return tessera::cli::run_train(arguments);
    if (verb == "env") return tessera::cli::run_env(arguments);
    std::cerr << "tessera-torch: start `tessera <verb>` instead\n";
    return tessera::cli::kBadUsage;
  });
}
