#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The name and size of an axis to create.
struct AxisSize {
  std::string name;  // Not empty; unique in a layout.
  int64_t size = 1;  // Ranks along the axis; at least 1.

  friend bool operator==(const AxisSize&, const AxisSize&) = default;
};

/// The axes of a layout, in order.
using AxisSizes = std::vector<AxisSize>;

/// One (size, stride) pair of an axis: equally spaced positions.
struct Extent {
  int64_t size = 1;    // Number of positions.
  int64_t stride = 1;  // Distance from one position to the next.

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// A named axis of a Layout: maps an index 0..size-1 to a position.
///
/// The index counts through the extents, the last one fastest. They are in canonical form (no
/// extent of size 1, neighbours merged if one continues the other), so that two axes with the same
/// positions compare equal. An axis of size 1 has no extents.
class Axis {
 public:
  Axis(std::string name, std::span<const Extent> extents);

  /// Unique in a layout.
  const std::string& name() const { return name_; }
  /// Ranks along the axis.
  int64_t size() const { return size_; }
  /// Slowest first; empty for an axis of size 1.
  std::span<const Extent> extents() const& { return extents_; }
  std::vector<Extent> extents() && { return std::move(extents_); }

  /// The distance of index `index` from index 0.
  int64_t offset(int64_t index) const;

  /// The largest stride, by which axes nest; 0 for an axis of size 1.
  int64_t reach() const;

  /// Splits the axis into axes of these names and sizes, the first one slowest.
  std::vector<Axis> split(const AxisSizes& parts) const;

  /// "dp=4:8", or "dp_cp=(2:32,4:2)" with several extents, or "cp=1".
  std::string to_string() const;

  friend bool operator==(const Axis&, const Axis&) = default;

 private:
  std::string name_;
  int64_t size_ = 1;
  std::vector<Extent> extents_;
};

}  // namespace tessera
