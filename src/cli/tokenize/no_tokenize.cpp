// `tessera tokenize` in a build without tokenizers.
#include "cli/verbs.h"
#include "tessera/base/error.h"

namespace tessera::cli {

int run_tokenize(const std::vector<std::string>&) {
  throw DataError(
      "this build has no tokenizers: PCRE2 or utf8proc was not found when it was configured; "
      "install "
      "them (Debian: libpcre2-dev, libutf8proc-dev) and build again");
}

}  // namespace tessera::cli
