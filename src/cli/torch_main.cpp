// `tessera-torch`: runs the verbs that need LibTorch. `tessera` starts it; users need not.
#include <c10/util/Logging.h>

#include <iostream>
#include <map>

#include "cli/parse.h"
#include "cli/verbs.h"
#include "tessera/base/error_words.h"

namespace {

const std::map<std::string_view, tessera::cli::VerbFunction> kVerbs{
    {"train", tessera::cli::run_train},
    {"generate", tessera::cli::run_generate},
    {"eval", tessera::cli::run_eval},
    {"env", tessera::cli::run_env},
};

}  // namespace

int main(int argc, char** argv) {
  // LibTorch's warnings about lost connections come with stack traces; our errors name the cause.
  if (!tessera::wants_backtrace()) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
  return tessera::cli::guarded([&] {
    const auto verb = kVerbs.find(argc < 2 ? "" : argv[1]);
    if (verb != kVerbs.end()) return verb->second({argv + 2, argv + argc});
    std::cerr << "tessera-torch: start `tessera <verb>` instead\n";
    return tessera::cli::kBadUsage;
  });
}
