#pragma once

#include <iterator>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A range in reverse. std::views::reverse does the same, but clang 15 does not compile it against
/// libstdc++.
template <class Range>
class Reversed {
 public:
  explicit Reversed(Range& range) : range_(range) {}
  /// At the range's last element.
  auto begin() const { return std::rbegin(range_); }
  /// Before the range's first element.
  auto end() const { return std::rend(range_); }

 private:
  Range& range_;
};

/// `for (const auto& x : reversed(xs))`; `xs` must outlive the loop.
template <class Range>
Reversed<Range> reversed(Range& range) {
  return Reversed<Range>(range);
}

}  // namespace tessera
