#include "tessera/schedule/csv.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

/// A place in the file, for messages.
struct Cell {
  std::string_view origin;
  size_t row = 0;
  size_t column = 0;

  [[noreturn]] void refuse(std::string_view rule) const {
    throw DataError(concat(origin, ": row ", row, ", column ", column, ": ", rule));
  }
};

// The lines without their line breaks; a final line break starts no further line.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  return lines;
}

// Removes the next cell and its comma from the line. A cell that contains a comma is quoted.
std::string_view take_cell(std::string_view& line, const Cell& cell) {
  const bool quoted = line.starts_with('"');
  if (quoted) line.remove_prefix(1);
  const size_t end = std::min(line.find(quoted ? '"' : ','), line.size());
  if (quoted && end == line.size()) cell.refuse("its quotation mark is never closed");
  const std::string_view text = line.substr(0, end);
  line.remove_prefix(quoted ? end + 1 : end);
  if (!line.empty() && line[0] != ',') cell.refuse("text follows its closing quotation mark");
  return text;
}

Action parse_cell(std::string_view text, CsvFormat format, const Cell& cell) {
  Action action;
  try {
    action = parse_action(text);
  } catch (const DataError& error) {
    cell.refuse(error.what());
  }
  if (format == CsvFormat::kComputeOnly && !action.computes() && !action.is_idle()) {
    cell.refuse(concat(action, " is not a compute action; read the table with CsvFormat::kComms"));
  }
  if (format == CsvFormat::kComms && action.is_idle()) {
    cell.refuse(
        "an empty cell; a table with communication is executed as it stands, without idle "
        "slots");
  }
  return action;
}

ScheduleRow parse_row(std::string_view line, CsvFormat format, Cell cell) {
  ScheduleRow row;
  for (;; ++cell.column) {
    row.push_back(parse_cell(take_cell(line, cell), format, cell));
    if (line.empty()) return row;
    line.remove_prefix(1);
  }
}

std::string cell_text(const Action& action) {
  const std::string text = to_string(action);
  return action.type() == ActionType::kBatch ? concat("\"", text, "\"") : text;
}

void check_format(const Schedule& schedule, CsvFormat format) {
  if (format == CsvFormat::kComputeOnly) {
    TSR_CHECK(schedule.is_compute_only(),
              "the table holds communication; write it in the format with communication");
    return;
  }
  for (size_t row = 0; row < schedule.rows().size(); ++row) {
    const ScheduleRow& actions = schedule.rows()[row];
    const auto idle = std::ranges::find_if(actions, &Action::is_idle);
    TSR_CHECK(idle == actions.end(), "row ", row, ", column ", idle - actions.begin(),
              ": an idle slot; a table with communication has none, lower it first");
  }
}

}  // namespace

Schedule parse_schedule_csv(std::string_view text, std::string_view origin,
                            const CsvOptions& options) {
  std::vector<ScheduleRow> rows;
  for (const std::string_view line : lines_of(text)) {
    rows.push_back(parse_row(line, options.format, {.origin = origin, .row = rows.size()}));
  }
  if (rows.empty()) throw DataError(concat(origin, " is empty; a table has one line per rank"));
  const ScheduleShape shape = options.shape.value_or(shape_of(rows));
  try {
    return {std::string(origin), shape, std::move(rows), options.sends};
  } catch (const ConfigError& error) {
    throw DataError(concat(origin, ": ", error.what()));
  }
}

std::string to_csv(const Schedule& schedule, CsvFormat format) {
  check_format(schedule, format);
  std::string text;
  for (const ScheduleRow& row : schedule.rows()) {
    std::string_view between;
    for (const Action& action : row) {
      text += between;
      text += cell_text(action);
      between = ",";
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace tessera
