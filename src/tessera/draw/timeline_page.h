#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines as a self-contained page: one time axis to zoom and pan. Each block shows what it
/// waits for and who waits for it. Live activations are below.
std::string draw_page(std::span<const Timeline> timelines, std::string_view title,
                      std::string_view subtitle);

/// The data of the page, as JSON.
std::string page_json(std::span<const Timeline> timelines, std::string_view subtitle);

}  // namespace tessera
