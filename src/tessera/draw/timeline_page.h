#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines as a page that stands alone: one time axis to zoom and pan, each block with what
/// it waits for and who waits for it, live activations below.
std::string draw_page(std::span<const Timeline> timelines, std::string_view title,
                      std::string_view subtitle);

/// What the page is told, as JSON.
std::string page_json(std::span<const Timeline> timelines, std::string_view subtitle);

}  // namespace tessera
