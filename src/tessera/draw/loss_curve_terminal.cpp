#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/draw/internal/axis.h"
#include "tessera/draw/loss_curve.h"

namespace tessera {

using namespace draw::detail;

namespace {

constexpr int64_t kLeastHeight = 8;
constexpr int64_t kAround = 3;  // Lines for the legend, the axis and its numbers.
constexpr int64_t kLeastWidth = 20;
constexpr int64_t kLinesPerMark = 2;
constexpr int64_t kColumnsPerMark = 12;

// Of medium lightness, so that they are visible on white and on black; after Okabe and Ito.
constexpr std::array<Rgb, 4> kColors{{{0, 128, 210}, {213, 94, 0}, {0, 158, 115}, {190, 110, 170}}};
constexpr std::array<std::string_view, 4> kMarks{"⠒⠒", "●", "◆", "▲"};
constexpr int64_t kEntry = 6;  // Characters around a name in the legend.

// A grid of Braille dots: each character holds two columns and four rows.
class Dots {
 public:
  Dots(int64_t columns, int64_t lines)
      : columns_(columns), cells_(static_cast<size_t>(columns * lines), 0) {}

  void set(int64_t x, int64_t y) {
    constexpr std::array<std::array<uint8_t, 4>, 2> kBits{{{1, 2, 4, 64}, {8, 16, 32, 128}}};
    cells_[static_cast<size_t>(y / 4 * columns_ + x / 2)] |=
        kBits.at(static_cast<size_t>(x % 2)).at(static_cast<size_t>(y % 4));
  }
  /// The character of a cell, in UTF-8; "" if it has no dot.
  std::string at(int64_t line, int64_t column) const {
    const uint8_t bits = cells_[static_cast<size_t>(line * columns_ + column)];
    if (bits == 0) return "";
    return {static_cast<char>(0xE2), static_cast<char>(0xA0 + (bits >> 6)),
            static_cast<char>(0x80 + (bits & 0x3F))};
  }

 private:
  int64_t columns_;
  std::vector<uint8_t> cells_;
};

class Drawing {
 public:
  Drawing(const LossCurve& curve, const TerminalOptions& options, int64_t height)
      : curve_(curve),
        color_(options.color),
        lines_(height - kAround),
        extent_(extent_of(curve.series)),
        y_(round_axis(extent_.y_least, extent_.y_greatest,
                      std::max<int64_t>(2, lines_ / kLinesPerMark))) {
    for (const double mark : y_.marks()) {
      label_ = std::max(label_, static_cast<int64_t>(concat(mark).size()));
    }
    columns_ = std::max(kLeastWidth, options.width - label_ - 2);
    x_ = step_axis(extent_.x_least, extent_.x_greatest,
                   std::max<int64_t>(1, columns_ / kColumnsPerMark));
  }

  std::string draw() {
    draw_legend();
    Dots dots(columns_, lines_);
    if (!curve_.series.empty()) draw_line(curve_.series[0].points, dots);
    for (int64_t line = 0; line < lines_; ++line) draw_row(line, dots);
    draw_x_axis();
    return std::move(out_).str();
  }

 private:
  int64_t dot_x(double x) const {
    return std::llround(x_.share(x) * static_cast<double>(2 * columns_ - 1));
  }
  int64_t dot_y(double y) const {
    return std::llround((1 - y_.share(y)) * static_cast<double>(4 * lines_ - 1));
  }

  std::string colored(std::string_view text, size_t series) const {
    return in_color(text, kColors.at(series % kColors.size()), color_);
  }

  // If room is short, drops the last values first, then series.
  void draw_legend() {
    const std::string begin = std::string(static_cast<size_t>(label_ + 2), ' ') + curve_.y_name;
    const bool values = fits(begin);
    out_ << begin;
    int64_t used = static_cast<int64_t>(begin.size());
    for (size_t i = 0; i < curve_.series.size(); ++i) {
      const std::string words = entry(i, values);
      used += kEntry + static_cast<int64_t>(words.size());
      if (used > width()) break;
      out_ << "   " << colored(kMarks.at(i % kMarks.size()), i) << " " << words;
    }
    out_ << "\n";
  }

  int64_t width() const { return label_ + 2 + columns_; }

  std::string entry(size_t series, bool with_value) const {
    const auto& points = curve_.series[series].points;
    const std::string name = visible(curve_.series[series].name);
    return with_value && !points.empty() ? concat(name, " ", short_number(points.back().y)) : name;
  }

  bool fits(const std::string& begin) const {
    int64_t used = static_cast<int64_t>(begin.size());
    for (size_t i = 0; i < curve_.series.size(); ++i) {
      used += kEntry + static_cast<int64_t>(entry(i, true).size());
    }
    return used <= width();
  }

  // Draws through the means of the points in each column of dots.
  void draw_line(const std::vector<CurvePoint>& points, Dots& dots) const {
    std::optional<CurvePoint> before;
    for (const CurvePoint& point : thinned(points, static_cast<size_t>(2 * columns_))) {
      const bool shown = std::isfinite(point.x) && std::isfinite(point.y);
      if (shown) connect(before.value_or(point), point, dots);
      before = shown ? std::optional(point) : std::nullopt;
    }
  }

  // Fills each column of dots from the end of the previous column to the current value.
  void connect(const CurvePoint& from, const CurvePoint& to, Dots& dots) const {
    const int64_t begin = dot_x(from.x);
    const int64_t end = dot_x(to.x);
    int64_t last = dot_y(from.y);
    for (int64_t x = begin; x <= end; ++x) {
      const double share =
          end == begin ? 1 : static_cast<double>(x - begin) / static_cast<double>(end - begin);
      const int64_t now = dot_y(from.y + share * (to.y - from.y));
      for (int64_t y = std::min(last, now); y <= std::max(last, now); ++y) dots.set(x, y);
      last = now;
    }
  }

  // The later series that has a marker in this character.
  std::optional<size_t> mark_at(int64_t line, int64_t column) const {
    for (size_t i = curve_.series.size(); i-- > 1;) {
      for (const CurvePoint& point : curve_.series[i].points) {
        const bool here =
            std::isfinite(point.y) && dot_y(point.y) / 4 == line && dot_x(point.x) / 2 == column;
        if (here) return i;
      }
    }
    return std::nullopt;
  }

  std::string label_at(int64_t line) const {
    for (const double mark : y_.marks()) {
      if (dot_y(mark) / 4 == line) return concat(mark);
    }
    return "";
  }

  void draw_row(int64_t line, const Dots& dots) {
    const std::string label = label_at(line);
    out_ << std::string(static_cast<size_t>(label_) - label.size(), ' ') << label
         << (label.empty() ? " │" : " ┤");
    std::string blanks;  // Written only if something follows.
    for (int64_t column = 0; column < columns_; ++column) {
      const auto mark = mark_at(line, column);
      const std::string text =
          mark ? std::string(kMarks.at(*mark % kMarks.size())) : dots.at(line, column);
      if (text.empty()) {
        blanks += ' ';
      } else {
        out_ << std::exchange(blanks, "") << colored(text, mark.value_or(0));
      }
    }
    out_ << "\n";
  }

  void draw_x_axis() {
    std::string numbers(static_cast<size_t>(label_ + 2), ' ');
    std::vector<bool> marked(static_cast<size_t>(columns_), false);
    for (const double mark : x_.marks()) {
      const auto column = static_cast<size_t>(dot_x(mark) / 2);
      const std::string text = concat(mark);
      const size_t middle = static_cast<size_t>(label_ + 2) + column;
      const size_t begin = middle - std::min(middle, text.size() / 2);
      if (begin + text.size() > static_cast<size_t>(width())) continue;
      marked[column] = true;
      numbers.resize(std::max(numbers.size(), begin), ' ');
      numbers.replace(begin, std::string::npos, text);
    }
    out_ << std::string(static_cast<size_t>(label_ + 1), ' ') << "└";
    for (const bool mark : marked) out_ << (mark ? "┬" : "─");
    const auto end = static_cast<size_t>(width());
    const bool room = numbers.size() + 1 + curve_.x_name.size() <= end;
    if (room) numbers.resize(end - curve_.x_name.size(), ' ');
    out_ << "\n" << numbers << (room ? curve_.x_name : "") << "\n";
  }

  const LossCurve& curve_;
  ColorMode color_;
  int64_t lines_;
  CurveExtent extent_;
  ValueAxis y_;
  ValueAxis x_;
  int64_t label_ = 1;  // Characters in the widest number.
  int64_t columns_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::string draw_terminal(const LossCurve& curve, const TerminalOptions& options, int64_t height) {
  TSR_CHECK(height >= kLeastHeight, "a curve of ", height,
            " lines shows nothing; give it at least ", kLeastHeight);
  return Drawing(curve, options, height).draw();
}

}  // namespace tessera
