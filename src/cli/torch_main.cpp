// `tessera-torch`: the verbs that need LibTorch. `tessera` starts it; nobody has to.
#include <c10/util/Logging.h>

#include <algorithm>
#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"
#include "tessera/base/error_words.h"

int main(int argc, char** argv) {
  // Its warnings of lost connections come with stacks; our errors say what is lost.
  if (!tessera::wants_backtrace()) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
  return tessera::cli::guarded([&] {
    const std::string verb = argc < 2 ? "" : argv[1];
    const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
    if (verb == "train") return tessera::cli::run_train(arguments);
    if (verb == "env") return tessera::cli::run_env(arguments);
    std::cerr << "tessera-torch: start `tessera <verb>` instead\n";
    return tessera::cli::kBadUsage;
  });
}
