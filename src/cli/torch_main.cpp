// `tessera-torch`: the verbs that need LibTorch. `tessera` starts it; nobody has to.
#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  return tessera::cli::guarded([&] {
    if (argc < 2 || std::string(argv[1]) != "env") {
      std::cerr << "tessera-torch: start `tessera <verb>` instead\n";
      return tessera::cli::kBadUsage;
    }
    return tessera::cli::run_env({argv + 2, argv + argc});
  });
}
