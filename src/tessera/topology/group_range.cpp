#include "tessera/topology/group_range.h"

#include "tessera/base/check.h"
#include "tessera/base/reversed.h"
#include "tessera/topology/rank_table.h"

namespace tessera {

GroupRange::GroupRange(int64_t origin, std::span<const Extent> within, std::vector<Extent> between,
                       std::shared_ptr<const RankTable> table)
    : first_(positions_along(origin, within)),
      between_(std::move(between)),
      table_(std::move(table)) {
  for (const Extent extent : between_) num_groups_ *= extent.size;
}

RankGroup GroupRange::operator[](int64_t index) const {
  TSR_CHECK(0 <= index && index < num_groups_, "group ", index, " does not exist; there are ",
            num_groups_, ", numbered from 0");
  int64_t shift = 0;
  for (const auto [size, stride] : reversed(between_)) {
    shift += index % size * stride;
    index /= size;
  }
  RankGroup group = first_;
  for (GlobalRank& member : group) member.value += shift;
  if (table_) table_->rename(group);
  return group;
}

}  // namespace tessera
