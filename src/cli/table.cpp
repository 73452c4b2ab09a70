#include "cli/table.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/wrap.h"

namespace tessera::cli {
namespace {

std::string pad(const std::string& text, size_t width, Align align) {
  const std::string space(width - std::min(width, length_of(text)), ' ');
  return align == Align::kLeft ? text + space : space + text;
}

}  // namespace

void Table::add_column(std::string title, Align align) {
  columns_.push_back({std::move(title), align});
}

void Table::add_row(std::vector<std::string> cells) {
  TSR_ASSERT(cells.size() == columns_.size(), "a row has ", cells.size(), " cells for ",
             columns_.size(), " columns");
  for (std::string& cell : cells) cell = visible(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::to_string() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(column.title);
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], length_of(line[i]));
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      row += (i == 0 ? "" : "  ") + pad(line[i], widths[i], columns_[i].align);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace tessera::cli
