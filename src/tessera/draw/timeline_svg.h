#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines as a picture, one under the other on one time axis: a row a rank, a block an
/// action with its microbatch, each rank's bubble and peak beside it, a legend below.
std::string draw_svg(std::span<const Timeline> timelines, std::string_view title,
                     std::string_view subtitle);

}  // namespace tessera
