#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines as a picture, stacked on one time axis: a row per rank, a block per action with
/// its microbatch. Each rank's bubble and peak are beside its row, a legend is below.
std::string draw_svg(std::span<const Timeline> timelines, std::string_view title,
                     std::string_view subtitle);

}  // namespace tessera
