// tokenizer: the ids of texts and the texts of ids, by tokenizers that the table itself holds.
#include <utf8proc.h>

#include <map>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/text/tokenizer.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

/// The table's tokenizers, each read when a case first needs it.
class Tokenizers {
 public:
  explicit Tokenizers(const Json& file)
      : documents_(value_or(file, "tokenizers", Json::object())),
        variants_(value_or(file, "variants", Json::object())) {}

  const Tokenizer& at(const std::string& name) {
    const auto known = read_.find(name);
    if (known != read_.end()) return known->second;
    return read_.emplace(name, Tokenizer::parse(document(name).dump(), name)).first->second;
  }

  /// The rule by which ours refuses this tokenizer.
  const Rule* rule_of(const std::string& name) const {
    return rules::of_added_tokens(document(name));
  }

  bool refuses(const std::string& name) const {
    try {
      (void)Tokenizer::parse(document(name).dump(), name);
      return false;
    } catch (const DataError&) {
      return true;
    }
  }

 private:
  // A variant is another document with some of its keys replaced; of `model`, only those named.
  Json document(const std::string& name) const {
    if (documents_.contains(name)) return documents_.at(name);
    if (!variants_.contains(name)) throw UnknownName("tokenizer", name);
    const Json& variant = variants_.at(name);
    Json changed = document(variant.at("base"));
    for (const auto& [key, value] : variant.at("set").items()) {
      if (key == "model") {
        changed[key].update(value);
      } else {
        changed[key] = value;
      }
    }
    return changed;
  }

  Json documents_;
  Json variants_;
  std::map<std::string, Tokenizer> read_;
};

std::string in_nfc(const std::string& text) {
  utf8proc_uint8_t* bytes = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> kept(bytes, std::free);
  if (size < 0) throw std::runtime_error(utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
}

std::string without_first_character(std::string text) {
  size_t width = 1;
  while (width < text.size() && (static_cast<unsigned char>(text[width]) & 0xc0U) == 0x80) ++width;
  return text.erase(0, std::min(width, text.size()));
}

std::string text_of(const Json& test_case) {
  const std::string once = test_case.at("text");
  std::string text;
  for (int64_t i = value_or(test_case, "repeat", 1); i > 0; --i) text += once;
  return text + value_or(test_case, "then", "").get<std::string>();
}

// What the text should decode to: it is written out, written shortly, or the text itself.
std::string decoded_of(const Json& test_case, const Json& expect, const std::string& text) {
  const Json decoded = value_or(expect, "decoded", text);
  if (!value_or(test_case, "repeat", nullptr).is_null()) {
    if (decoded == "-1") return without_first_character(text);
    if (decoded == "NFC") return in_nfc(text);
  }
  return decoded;
}

Json ids_of(const Json& expect) {
  const Json runs = value_or(expect, "ids_rle", nullptr);
  if (runs.is_null()) return expect.at("ids");
  Json ids = Json::array();
  for (const Json& run : runs) {
    for (int64_t i = run.at(1); i > 0; --i) ids.push_back(run.at(0));
  }
  return ids;
}

Outcome check_text(Tokenizers& tokenizers, const Json& test_case) {
  const std::string text = text_of(test_case);
  const EncodeOptions options{.add_special = value_or(test_case, "add_special", true)};
  Json expected = Json::object();
  Json got = Json::object();
  const Rule* decided = nullptr;
  for (const auto& [name, expect] : test_case.at("expect").items()) {
    if (const Rule* const rule = tokenizers.rule_of(name)) {
      decided = rule;
      expected[name] = true;
      got[name] = tokenizers.refuses(name);
      continue;
    }
    const Tokenizer& tokenizer = tokenizers.at(name);
    const std::vector<int64_t> ids = tokenizer.encode(text, options);
    expected[name] = {{"ids", ids_of(expect)}, {"decoded", decoded_of(test_case, expect, text)}};
    got[name] = {{"ids", ids}, {"decoded", tokenizer.decode(ids)}};
    const Json decoded_all = value_or(expect, "decoded_all", nullptr);
    if (decoded_all.is_null()) continue;
    expected[name]["decoded_all"] = decoded_all;
    got[name]["decoded_all"] = tokenizer.decode(ids, {.keep_special = true});
  }
  return {expected, got, decided};
}

Outcome check_decode(Tokenizers& tokenizers, const Json& test_case) {
  const std::string name = test_case.at("tokenizer");
  if (const Rule* const rule = tokenizers.rule_of(name))
    return {true, tokenizers.refuses(name), rule};
  const Tokenizer& tokenizer = tokenizers.at(name);
  const std::vector<int64_t> ids = test_case.at("ids");
  const Json expected{{"decoded", test_case.at("decoded")},
                      {"decoded_all", test_case.at("decoded_all")}};
  const Json got{{"decoded", tokenizer.decode(ids)},
                 {"decoded_all", tokenizer.decode(ids, {.keep_special = true})}};
  return {expected, got};
}

}  // namespace

Table tokenizer_table() {
  // The cases of a file come before any of them is checked.
  const auto tokenizers = std::make_shared<std::unique_ptr<Tokenizers>>();
  const auto cases = [tokenizers](const Json& file) {
    *tokenizers = std::make_unique<Tokenizers>(file);
    std::vector<Case> list;
    for (const char* const part : {"cases", "decode"}) {
      for (const Json& test_case : value_or(file, part, Json::array())) {
        list.push_back({part, test_case});
      }
    }
    return list;
  };
  const auto text = [tokenizers](const Json& c) { return check_text(**tokenizers, c); };
  const auto decode = [tokenizers](const Json& c) { return check_decode(**tokenizers, c); };
  return {"tokenizer", {{"cases", text}, {"decode", decode}}, cases};
}

}  // namespace tessera::golden
