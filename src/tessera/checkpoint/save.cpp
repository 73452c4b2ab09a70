#include "tessera/checkpoint/save.h"

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

SaveReport save(const std::string& folder, const CheckpointEntries& entries, const Group& group,
                const Metadata& state) {
  SaveReport report = CheckpointSaver(group).save({.path = folder, .state = state}, entries);
  if (report.succeeded()) return report;
  throw DataError(concat("cannot save ", folder, ": ", report.error));
}

}  // namespace tessera
