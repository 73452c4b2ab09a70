#include "tests/e2e/altered_context.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::golden {
namespace {

using nlohmann::json;

bool is_set(const json& one, const char* key) {
  return one.contains(key) && !one[key].is_null();
}

// Every number of these fields, but not the mark of padding.
void scale(json& value, int64_t factor) {
  if (value.is_number() && value != -1) value = value.get<int64_t>() * factor;
  if (value.is_structured()) {
    for (json& entry : value) scale(entry, factor);
  }
}

void scale_fields(json& one, const std::vector<const char*>& fields, int64_t factor) {
  for (const char* field : fields) {
    if (is_set(one, field)) scale(one[field], factor);
  }
}

// Sequences some times as long, in chunks some times as long.
void scale_sequence(json& one, int64_t factor) {
  scale_fields(one, {"seq_len"}, factor);
  scale_fields(one["expect"], {"ranks", "restore"}, factor);
}

// The padding grows as well if the multiple does.
void scale_olmo(json& one, int64_t factor, int64_t default_multiple) {
  if (!is_set(one, "length_multiple")) one["length_multiple"] = default_multiple;
  scale_fields(one, {"seq_len", "doc_lens", "length_multiple"}, factor);
  scale(one["expect"]["ranks"], factor);
}

// Each document is padded to a multiple that does not grow, so that only whole ones scale.
bool has_whole_documents(const json& one) {
  const int64_t chunks = 2 * one["degree"].get<int64_t>();
  return std::ranges::all_of(one["doc_lens"], [&](int64_t length) { return length % chunks == 0; });
}

void scale_zig_zag_documents(json& one, int64_t factor) {
  if (!has_whole_documents(one)) return;
  scale_fields(one, {"doc_lens", "length_multiple"}, factor);
  scale(one["expect"]["ranks"], factor);
}

void scale_thd(json& one, int64_t factor) {
  if (!has_whole_documents(one)) return;
  scale(one["doc_lens"], factor);
  scale(one["expect"], factor);
}

void scale_ptrr_mask(json& one, int64_t factor) {
  scale_fields(one, {"seq_len", "block", "doc_lens"}, factor);
  if (is_set(one, "window")) one["window"] = (one["window"].get<int64_t>() - 1) * factor + 1;
  scale_fields(one["expect"], {"ranks", "restore"}, factor);
}

void scale_usp(json& one, int64_t factor) {
  if (one["layout"] != "strip") scale_sequence(one, factor);
}

using Alter = std::function<void(json& one, int64_t factor)>;

const std::map<std::string, Alter>& alterations() {
  static const std::map<std::string, Alter> kAlterations{
      {"torch_head_tail", scale_sequence},
      {"torch_default",
       [](json& one, int64_t factor) {  // Unequal pieces may become equal.
         if (one["expect"]["balanced"]) scale_sequence(one, factor);
       }},
      {"megatron_zig_zag", scale_sequence},
      {"torch_ptrr",
       [](json& one, int64_t factor) {
         scale(one["process_time"], factor);
         scale(one["expect"]["sums"], factor);
       }},
      {"torch_ptrr_mask", scale_ptrr_mask},
      {"olmo_zig_zag",
       [](json& one, int64_t factor) {
         scale_olmo(one, factor, 2 * one["degree"].get<int64_t>());
       }},
      {"olmo_ulysses", [](json& one, int64_t factor) { scale_olmo(one, factor, one["degree"]); }},
      {"olmo_zig_zag_doc", scale_zig_zag_documents},
      {"olmo_llama3_doc", [](json& one, int64_t factor) { scale_olmo(one, factor, 1); }},
      {"olmo_ulysses_doc",
       [](json& one, int64_t factor) { scale_olmo(one, factor, one["degree"]); }},
      {"olmo_ulysses_heads",
       [](json& one, int64_t factor) {
         scale_fields(one, {"seq_len", "heads", "kv_heads"}, factor);
         scale(one["expect"], factor);
       }},
      {"te_thd", scale_thd},
      {"usp", scale_usp}};
  return kAlterations;
}

}  // namespace

void alter_context_balance(json& one, Dice& dice) {
  if (one.contains("length_multiple") && one["length_multiple"].is_null() && dice.coin()) {
    one.erase("length_multiple");
  }
  const auto alter = alterations().find(one["kind"]);
  const auto factor = static_cast<int64_t>(1 + dice.below(5));
  // A refused length may be legal some times over.
  if (alter == alterations().end() || one["expect"].contains("error")) return;
  alter->second(one, factor);
}

}  // namespace tessera::golden
