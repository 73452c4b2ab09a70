#include "tessera/schedule/kind.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

struct KindFacts {
  ScheduleKind kind;
  std::string_view name;
  std::string_view alias;  // A second name, or "".
  bool generated;
  bool single_stage;
  StagePlacement placement;
};

using enum ScheduleKind;
using enum StagePlacement;

// In the order of the enumeration.
constexpr std::array<KindFacts, 12> kKinds{{
    {kGPipe, "GPipe", "", true, true, kLoop},
    {k1F1B, "1F1B", "", true, true, kLoop},
    {kInterleaved1F1B, "Interleaved1F1B", "Interleaved", true, false, kLoop},
    {kLoopedBFS, "LoopedBFS", "", true, false, kLoop},
    {kInterleavedZeroBubble, "InterleavedZeroBubble", "", true, false, kLoop},
    {kZBVZeroBubble, "ZBVZeroBubble", "ZBV", true, false, kV},
    {kDualPipeV, "DualPipeV", "", true, false, kV},
    {kZBH1, "ZBH1", "", false, true, kLoop},
    {kZBH2, "ZBH2", "", false, true, kLoop},
    {kVHalf, "VHalf", "", false, false, kV},
    {kVMin, "VMin", "", false, false, kV},
    {kAuto, "auto", "", false, true, kLoop},
}};

const KindFacts& facts_of(ScheduleKind kind) {
  return kKinds.at(static_cast<size_t>(kind));
}

}  // namespace

std::string_view to_string(ScheduleKind kind) {
  return facts_of(kind).name;
}

std::string_view to_string(StagePlacement placement) {
  return placement == kLoop ? "loop" : "v";
}

ScheduleKind parse_schedule_kind(std::string_view text) {
  const std::string word = to_lower(text);
  for (const KindFacts& facts : kKinds) {
    const bool alias = !facts.alias.empty() && to_lower(facts.alias) == word;
    if (alias || to_lower(facts.name) == word) return facts.kind;
  }
  const auto names = schedule_kind_names();
  throw ConfigError(concat("no schedule is called '", text, "'; known are ", join(names, ", "),
                           did_you_mean(word, names)));
}

std::vector<std::string> schedule_kind_names() {
  std::vector<std::string> names;
  for (const KindFacts& facts : kKinds) {
    names.push_back(to_lower(facts.name));
    if (!facts.alias.empty()) names.push_back(to_lower(facts.alias));
  }
  return names;
}

bool is_generated(ScheduleKind kind) {
  return facts_of(kind).generated;
}

bool is_single_stage(ScheduleKind kind) {
  return facts_of(kind).single_stage;
}

int64_t default_stages_per_rank(ScheduleKind kind) {
  return is_single_stage(kind) ? 1 : 2;
}

StagePlacement placement_of(ScheduleKind kind) {
  return facts_of(kind).placement;
}

std::vector<int32_t> place_stages(StagePlacement placement, int64_t pp, int64_t num_stages) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TSR_CHECK(pp >= 1 && pp <= kMost, "pp is ", pp, ", but must be from 1 to ", kMost);
  TSR_CHECK(num_stages >= 1 && num_stages <= kMost, "num_stages is ", num_stages,
            ", but must be from 1 to ", kMost);
  TSR_CHECK(placement == kLoop || num_stages % pp == 0, num_stages,
            " stages cannot be placed in a V on ", pp,
            " ranks: their number must be a multiple of pp; nearest are ", num_stages / pp * pp,
            " and ", (num_stages / pp + 1) * pp);
  std::vector<int32_t> ranks;
  ranks.reserve(static_cast<size_t>(num_stages));
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    const bool back = placement == kV && stage / pp % 2 == 1;
    ranks.push_back(static_cast<int32_t>(back ? pp - 1 - stage % pp : stage % pp));
  }
  return ranks;
}

}  // namespace tessera
