#pragma once

#include <string_view>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera::testkit {

/// Parses a row: actions separated by blanks, "." for an idle slot.
inline ScheduleRow row(std::string_view text) {
  ScheduleRow actions;
  for (const std::string_view word : split(text, ' ')) {
    if (!word.empty()) actions.push_back(word == "." ? Action() : parse_action(word));
  }
  return actions;
}

/// A table of these rows, with the smallest shape that fits.
inline Schedule table(const std::vector<std::string_view>& texts,
                      SendMode sends = SendMode::kRendezvous) {
  std::vector<ScheduleRow> rows;
  for (const std::string_view text : texts) rows.push_back(row(text));
  const ScheduleShape shape = shape_of(rows);
  return {"table", shape, std::move(rows), sends};
}

}  // namespace tessera::testkit
