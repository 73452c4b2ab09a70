// A build without tokenizers.
#include "cli/generate/codec.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::cli {

std::unique_ptr<Codec> tokenizer_codec(const std::string& folder, int64_t) {
  throw DataError(concat(folder,
                         " has a tokenizer.json, but this build has no tokenizers: install ",
                         "PCRE2 and utf8proc (Debian: libpcre2-dev, libutf8proc-dev) and build ",
                         "again, or give --prompt-ids and --ids"));
}

}  // namespace tessera::cli
