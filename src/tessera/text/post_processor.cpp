#include "tessera/text/internal/post_processor.h"

#include <cstdint>
#include <limits>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::text::detail {

PostProcessor::PostProcessor(const JsonField& field) {
  if (!field.is_null()) add(field);
}

void PostProcessor::add(const JsonField& field) {
  const std::string type = field.at("type").raw_text();
  if (type == "Sequence") {
    (void)field.at("processors").list([&](const JsonField& one) {
      add(one);
      return 0;
    });
  } else if (type == "TemplateProcessing") {
    add_template(field);
  } else if (type != "ByteLevel") {  // It changes offsets alone.
    field.at("type").refuse(
        "a supported post-processor: ByteLevel, TemplateProcessing or Sequence");
  }
}

void PostProcessor::add_template(const JsonField& field) {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  size_t texts = 0;
  (void)field.at("single").list([&](const JsonField& piece) {
    if (piece.has("Sequence")) {
      const JsonField sequence = piece.at("Sequence");
      const JsonField id = sequence.at("id");
      id.check(id.raw_text() == "A", "\"A\": a single text has no other");
      ++texts;
      return 0;
    }
    const JsonField special = piece.at("SpecialToken");
    const JsonField id = special.at("id");
    const JsonField tokens = field.at("special_tokens");
    id.check(tokens.has(id.raw_text()), "one of special_tokens");
    const auto ids = tokens.at(id.raw_text()).at("ids").list([](const JsonField& one) {
      return one.integer(0, std::numeric_limits<int32_t>::max());
    });
    std::vector<int64_t>& to = texts == 0 ? before : after;
    to.insert(to.end(), ids.begin(), ids.end());
    return 0;
  });
  field.at("single").check(texts == 1, "a list in which the text stands once");
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

}  // namespace tessera::text::detail
