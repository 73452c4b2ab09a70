#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/format/unit_record.h"

/// Pictures of a recorded step of units: when each was gathered, computed, freed and reduced.
namespace tessera TSR_API {

/// One row of the picture. Times are in milliseconds.
struct UnitRow {
  std::string name;                    // "compute", "exchange", or a unit: "model.layers.3".
  std::vector<UnitEvent> events = {};  // Later ones are drawn over earlier ones.
};

/// One rank's step, ready to be drawn.
struct UnitTimeline {
  double end = 0;         // Milliseconds.
  UnitRow compute = {};   // What the thread that computes does: passes, products and waits.
  UnitRow exchange = {};  // What the ranks of cp exchange meanwhile; without events if nothing.
  std::vector<UnitRow> units = {};  // In the order in which they begin; without these.
};
/// The picture of a recorded step's units.
UnitTimeline unit_timeline(const UnitRecord& record);

/// A row for the compute thread, one for exchanges and one per unit, with ruler and legend.
std::string draw_svg(const UnitTimeline& timeline, std::string_view title,
                     std::string_view subtitle);

/// The same in the terminal. An event other than a wait takes at least a character.
std::string draw_terminal(const UnitTimeline& timeline, const TerminalOptions& options);
/// Whether the rows fit onto a screen.
bool fits_terminal(const UnitTimeline& timeline);

/// Writes a trace: a process per rank with the same rows, and how many gathered buffers are in
/// memory.
void write_unit_trace(std::span<const UnitRecord> records, std::ostream& out);

}  // namespace tessera
