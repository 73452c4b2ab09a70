#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/text/internal/tokenizer_parts.h"

namespace tessera::text::detail {
namespace {

JsonField checked_file(const JsonField& file) {
  for (const char* const key : {"truncation", "padding"}) {
    if (file.has(key))
      file.at(key).check(file.at(key).is_null(), "null: texts are neither cut nor padded");
  }
  return file;
}

// An absent part is the same as null.
template <class T>
T part_of(const JsonField& file, std::string_view key) {
  return file.has_value(key) ? T(file.at(key)) : T();
}

}  // namespace

TokenizerParts::TokenizerParts(const JsonField& file, std::string from)
    : origin(std::move(from)),
      normalizer(part_of<Normalizer>(checked_file(file), "normalizer")),
      pre_tokenizer(part_of<PreTokenizer>(file, "pre_tokenizer")),
      bpe(file.at("model"), pre_tokenizer.is_byte_level()),
      post_processor(part_of<PostProcessor>(file, "post_processor")),
      decoder(part_of<Decoder>(file, "decoder")) {
  if (file.has_value("added_tokens")) read_added(file.at("added_tokens"));
  check_ids(post_processor.before());
  check_ids(post_processor.after());
}

// A token of the vocabulary keeps its id, others follow the vocabulary.
int64_t TokenizerParts::expected_id(const std::string& content) const {
  if (const auto id = bpe.find(content)) return *id;
  return std::max(largest_added_ + 1, static_cast<int64_t>(bpe.size()));
}

void TokenizerParts::read_added(const JsonField& field) {
  field.check(field.value().is_array(), "a list");
  added.reserve(field.value().size());
  (void)field.list([&](const JsonField& one) {
    const auto flag = [&](std::string_view key) {
      return one.has_value(key) && one.at(key).boolean();
    };
    AddedToken token{.id = one.at("id").integer(0, INT32_MAX),
                     .content = one.at("content").raw_text(),
                     .single_word = flag("single_word"),
                     .lstrip = flag("lstrip"),
                     .rstrip = flag("rstrip"),
                     .normalized = flag("normalized"),
                     .special = flag("special")};
    one.at("content").check(!token.content.empty(), "a text that is not empty");
    one.at("content").check(!added_by_content.contains(token.content),
                            "a token that was not there before");
    const int64_t expected = expected_id(token.content);
    one.at("id").check(token.id == expected,
                       concat(expected, ", the id that the vocabulary gives it"));
    added.push_back(std::move(token));
    const AddedToken& kept = added.back();
    largest_added_ = std::max(largest_added_, kept.id);
    longest_added_ = std::max(longest_added_, kept.content.size());
    added_by_id[kept.id] = &kept;
    added_by_content[kept.content] = &kept;
    if (kept.special) special.insert(kept.content);
    return 0;
  });
  Matcher matcher;
  for (const bool is_special : {true, false}) {
    for (const AddedToken& token : added) {
      if (token.special != is_special) continue;
      if (token.normalized) {
        normalized_tokens.add(normalizer.run(token.content, true, matcher), token);
      } else {
        raw_tokens.add(token.content, token);
      }
    }
  }
}

void TokenizerParts::check_ids(const std::vector<int64_t>& ids) const {
  for (const int64_t id : ids) {
    if (token_of(id) != nullptr) continue;
    throw DataError(concat(origin, ": post_processor adds id ", id, ", which no token has"));
  }
}

const std::string* TokenizerParts::token_of(int64_t id) const {
  if (const auto token = added_by_id.find(id); token != added_by_id.end())
    return &token->second->content;
  if (id < 0 || id > bpe.largest_id()) return nullptr;
  const auto token = bpe.tokens().find(static_cast<uint32_t>(id));
  return token == bpe.tokens().end() ? nullptr : &token->second;
}

int64_t TokenizerParts::largest_id() const {
  return std::max(bpe.largest_id(), largest_added_);
}

TokenizerParts::Division TokenizerParts::division() const {
  constexpr size_t kLongestAdded =
      1024;  // It must lie within what is shown of the text's next part.
  if (!normalizer.is_local() || longest_added_ > kLongestAdded) return Division::kNone;
  if (pre_tokenizer.takes_cuts()) return Division::kBetweenPieces;
  return pre_tokenizer.is_plain() && !bpe.ignores_merges() ? Division::kBetweenSymbols
                                                           : Division::kNone;
}

}  // namespace tessera::text::detail
