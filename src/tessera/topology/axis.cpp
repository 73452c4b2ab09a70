#include "tessera/topology/axis.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/reversed.h"

namespace tessera {

Axis::Axis(std::string name, std::span<const Extent> extents) : name_(std::move(name)) {
  for (const Extent extent : extents) {
    TSR_CHECK(extent.size > 0 && extent.stride > 0, "axis '", name_, "' has an extent of size ",
              extent.size, " and stride ", extent.stride, "; both must be at least 1");
    size_ = checked_multiply(size_, extent.size, "the size of an axis");
    if (extent.size == 1) continue;
    if (!extents_.empty() && extents_.back().stride == extent.size * extent.stride) {
      extents_.back() = {extents_.back().size * extent.size, extent.stride};
    } else {
      extents_.push_back(extent);
    }
  }
}

int64_t Axis::offset(int64_t index) const {
  int64_t offset = 0;
  for (const auto [size, stride] : reversed(extents_)) {
    offset += index % size * stride;
    index /= size;
  }
  return offset;
}

int64_t Axis::reach() const {
  int64_t reach = 0;
  for (const Extent extent : extents_) reach = std::max(reach, extent.stride);
  return reach;
}

std::vector<Axis> Axis::split(const AxisSizes& parts) const {
  int64_t product = 1;
  for (const auto& [part_name, size] : parts) {
    TSR_CHECK(!part_name.empty(), "a part of size ", size, " has no name; give every axis a name");
    TSR_CHECK(size > 0, "part '", part_name, "' has size ", size, "; sizes must be at least 1");
    product = checked_multiply(product, size, "the product of the parts");
  }
  TSR_CHECK(product == size_, "axis '", name_, "' of size ", size_,
            " cannot be split into parts whose product is ", product,
            "; the product of the parts must be the size of the axis");
  std::vector<Extent> rest = extents_;  // Consumed from the last one.
  std::vector<Axis> axes;
  for (const auto& [part_name, part_size] : reversed(parts)) {
    std::vector<Extent> taken;
    for (int64_t wanted = part_size; wanted > 1;) {
      Extent& inner = rest.back();
      if (wanted % inner.size == 0) {
        wanted /= inner.size;
        taken.insert(taken.begin(), inner);
        rest.pop_back();
        continue;
      }
      TSR_CHECK(inner.size % wanted == 0, "axis ", to_string(), " cannot be split into ", part_name,
                "=", part_size, ": its stride changes after every ", inner.size,
                " ranks; choose a divisor or a multiple of ", inner.size);
      taken.insert(taken.begin(), {wanted, inner.stride});
      inner = {inner.size / wanted, inner.stride * wanted};
      wanted = 1;
    }
    axes.insert(axes.begin(), Axis(part_name, taken));
  }
  return axes;
}

std::string Axis::to_string() const {
  if (extents_.empty()) return concat(name_, "=1");
  std::vector<std::string> pairs;
  for (const auto [size, stride] : extents_) pairs.push_back(concat(size, ":", stride));
  return pairs.size() == 1 ? concat(name_, "=", pairs[0])
                           : concat(name_, "=(", join(pairs, ","), ")");
}

}  // namespace tessera
