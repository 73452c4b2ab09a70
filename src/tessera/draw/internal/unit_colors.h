#pragma once

#include <array>
#include <string_view>

#include "tessera/base/color.h"
#include "tessera/format/unit_record.h"

namespace tessera::draw::detail {

/// In the order of a unit's life.
inline constexpr std::array kUnitActions{UnitAction::kGather,   UnitAction::kForward,
                                         UnitAction::kBackward, UnitAction::kReduce,
                                         UnitAction::kHeld,     UnitAction::kWait};

/// Dark text is readable on all of them.
Rgb unit_color(UnitAction action);
/// "gather in flight".
std::string_view unit_words(UnitAction action);

}  // namespace tessera::draw::detail
