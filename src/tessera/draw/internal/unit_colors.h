#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/draw/unit_timeline.h"
#include "tessera/format/unit_record.h"

namespace tessera::draw::detail {

/// In the order of a unit's life.
inline constexpr std::array kUnitActions{
    UnitAction::kGather, UnitAction::kForward,  UnitAction::kBackward, UnitAction::kReduce,
    UnitAction::kHeld,   UnitAction::kExchange, UnitAction::kAttend,   UnitAction::kWait};

/// Dark text is readable on all of them.
Rgb unit_color(UnitAction action);
/// "gather in flight".
std::string_view unit_words(UnitAction action);
/// Those that the timeline shows, in the same order.
std::vector<UnitAction> shown_actions(const UnitTimeline& timeline);

}  // namespace tessera::draw::detail
