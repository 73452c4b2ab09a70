// Any bytes as a text and as ids, for tokenizers of all kinds. What is not UTF-8 is refused by
// DataError. Otherwise bytes come back as they were, parts of the text give the ids of the whole,
// and ids decoded one by one the text of all of them.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/text/internal/utf8.h"
#include "tests/testkit/tokenizers.h"

namespace {

using tessera::Encoder;
using tessera::Tokenizer;

void demand(bool holds) {
  if (!holds) std::abort();
}

std::vector<int64_t> in_parts(const Tokenizer& tokenizer, std::string_view text, size_t step) {
  Encoder encoder(tokenizer);
  std::vector<int64_t> ids;
  size_t begin = 0;
  for (size_t from = step; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    const size_t size = tokenizer.find_division(rest, from).value_or(rest.size());
    const size_t before = ids.size();
    if (encoder.append_part({.text = rest, .size = size, .continues = begin > 0}, ids)) {
      begin += size;
      from = step;
    } else {
      demand(size < rest.size());
      ids.resize(before);
      from = size + 1;
    }
  }
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  tessera::DecodeStream stream(tokenizer, {.keep_special = true});
  std::string text;
  for (const int64_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

void use_text(const Tokenizer& tokenizer, std::string_view text, bool keeps_bytes) {
  const std::vector<int64_t> ids = tokenizer.encode(text, {.add_special = false});
  const std::string decoded = tokenizer.decode(ids, {.keep_special = true});
  demand(!keeps_bytes || decoded == text);
  demand(in_parts(tokenizer, text, 3) == ids);
  demand(streamed(tokenizer, ids) == decoded);
}

void use_ids(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    ids.push_back(
        (static_cast<unsigned char>(bytes[i]) * 256 + static_cast<unsigned char>(bytes[i + 1])) %
        (tokenizer.vocab_size() + 1));
  }
  const std::string decoded = tokenizer.decode(ids, {.keep_special = true});
  demand(!tessera::text::detail::find_invalid(decoded));
  demand(streamed(tokenizer, ids) == decoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Tokenizer> kTokenizers = [] {
    std::vector<Tokenizer> all;
    for (const char* const name : {"llama3", "qwen", "llama2"}) {
      all.push_back(tessera::testkit::parse_tokenizer(tessera::testkit::tokenizer_document(name)));
    }
    return all;
  }();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool is_text = !tessera::text::detail::find_invalid(bytes);
  const size_t chosen = size % kTokenizers.size();
  use_ids(kTokenizers[chosen], bytes);
  try {
    use_text(kTokenizers[chosen], bytes, /*keeps_bytes=*/chosen == 0);
    demand(is_text);
  } catch (const tessera::DataError&) {
    demand(!is_text);
  }
  return 0;
}
