// Any text as a tokenizer.json: either refused by DataError, or a tokenizer that encodes texts to
// ids of its own vocabulary, and decodes them to valid UTF-8. The text itself is encoded, too.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/text/tokenizer.h"

namespace {

void use(const tessera::Tokenizer& tokenizer, std::string_view text) {
  try {
    const std::vector<int64_t> ids = tokenizer.encode(text);
    const auto outside = [&](int64_t id) { return id < 0 || id >= tokenizer.vocab_size(); };
    if (std::ranges::any_of(ids, outside)) std::abort();
    (void)tokenizer.encode(tokenizer.decode(ids, {.keep_special = true}));  // It is valid UTF-8.
  } catch (const tessera::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::Tokenizer tokenizer = tessera::Tokenizer::parse(text, "fuzz");
    use(tokenizer, "the  caf\xC3\xA9 \xE2\x96\x81 e\xCC\x81 12345<s>'S\r\n\n \xF0\x9F\x99\x82");
    use(tokenizer, text);
  } catch (const tessera::DataError&) {
  }
  return 0;
}
