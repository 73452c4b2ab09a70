#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/checkpoint/saver.h"

namespace tessera TSR_API {

/// **Collective.** Saves the entries of all ranks as a new folder, and returns when it is complete
/// and on the disk. DataError, the same on all ranks, if it cannot be; then nothing is left of it.
///
///   save("checkpoint", {{"weight", weight}, {"table", dtensor}}, world.group());
///   load("checkpoint", {{"weight", weight}, {"table", other_layout}}, world.group());
SaveReport save(const std::string& folder, const CheckpointEntries& entries, const Group& group,
                const Metadata& state = {});

}  // namespace tessera
