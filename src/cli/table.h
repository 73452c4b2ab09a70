#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

enum class Align { kLeft, kRight };

/// Columns of text, each as wide as its widest cell.
class Table {
 public:
  void add_column(std::string title, Align align = Align::kLeft);
  /// One cell per column; visible() is applied to each.
  void add_row(std::vector<std::string> cells);
  std::string to_string() const;

 private:
  struct Column {
    std::string title;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera::cli
