#include "cli/json_text.h"
#include "cli/ranks/view.h"
#include "tessera/base/text.h"
#include "tessera/topology/rank_text.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

// "--dialect olmo --world 64 --tp 8".
std::string spoken(const std::string& dialect, int64_t world, const FlagValues& flags) {
  const std::string text = concat("--dialect ", dialect, " --world ", world);
  return flags.empty() ? text : concat(text, " ", to_string(flags));
}

Json to_json(const RankGroup& group) {
  Json ranks = Json::array();
  for (const GlobalRank rank : group) ranks.push_back(rank.value);
  return ranks;
}

Json to_json(const std::string& dialect, const FlagValues& flags) {
  Json json{{"dialect", dialect}, {"flags", Json::object()}};
  for (const auto& [flag, value] : flags) json["flags"][flag] = value;
  return json;
}

}  // namespace

void write_translation_text(const TranslationView& view, std::ostream& out) {
  const int64_t world = view.from.plan.world();
  const Translation& answer = view.translation;
  out << "from  " << spoken(view.from.dialect, world, view.flags) << "\n";
  if (answer.flags) {
    out << "to    " << spoken(view.to.name, world, *answer.flags) << "\n\n"
        << "The same layout: all dp, tp, cp, pp"
        << (view.from.has_experts() ? ", ep and etp" : " and ep")
        << " groups have the same ranks.\n";
    return;
  }
  out << "to    cannot be expressed; nearest " << spoken(view.to.name, world, answer.nearest)
      << "\n\n";
  if (!answer.refusal.empty()) out << view.to.name << " refuses that: " << answer.refusal << ".\n";
  if (answer.difference) {
    const auto& [kind, from, to] = *answer.difference;
    out << "The first group that differs: " << kind << " is {" << short_list(from) << "} in "
        << view.from.dialect << ", {" << short_list(to) << "} in " << view.to.name << ".\n";
  }
  out << "In " << view.to.name << ", " << answer.why << ".\n";
}

void write_translation_json(const TranslationView& view, std::ostream& out) {
  const Translation& answer = view.translation;
  Json json{{"world", view.from.plan.world()},
            {"from", to_json(view.from.dialect, view.flags)},
            {"to", to_json(view.to.name, answer.flags ? *answer.flags : answer.nearest)},
            {"same", answer.flags.has_value()}};
  if (answer.difference) {
    const auto& [kind, from, to] = *answer.difference;
    json["difference"] = {{"kind", kind}, {"from", to_json(from)}, {"to", to_json(to)}};
  }
  if (!answer.refusal.empty()) json["refusal"] = answer.refusal;
  if (!answer.flags) json["why"] = answer.why;
  out << json_text(json) << "\n";
}

}  // namespace tessera::cli
