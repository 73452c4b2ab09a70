#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Values over steps, one row per thing: the tokens of each expert. 1 is the mean.
struct HeatMap {
  std::vector<double> steps = {};                 // The number of each column.
  std::vector<std::vector<double>> columns = {};  // The values of each step, by row.
  std::string row_name = "expert";                // Label of a row, before its number.
};

/// An SVG picture: the colour of a cell is its value, white at 0, and darker the larger it is. Many
/// steps become at most 120 columns, each the mean of neighbouring steps. Pointing at a cell shows
/// its value.
std::string draw_svg(const HeatMap& map, std::string_view title, std::string_view subtitle);

}  // namespace tessera
