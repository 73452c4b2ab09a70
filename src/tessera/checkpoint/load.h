#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tessera/base/export.h"
#include "tessera/checkpoint/entries.h"
#include "tessera/comm/group.h"
#include "tessera/format/checkpoint/checkpoint.h"

/// Loads checkpoints into any layout: each rank reads the bytes of its parts, whatever the layout
/// that saved them.
namespace tessera TSR_API {

/// Local. Sets the values of the entries, converted to their dtypes and moved to their devices.
/// DataError if a tensor is missing or has another shape.
void load(const Checkpoint& checkpoint, const CheckpointEntries& entries);

/// **Collective.** The same with a check of every byte of the checkpoint: each rank reads some
/// files and compares their checksums. If a file is damaged, all ranks throw the same DataError,
/// and nothing has changed.
void load(const std::string& folder, const CheckpointEntries& entries, const Group& group);

/// Local. Sets the values of parameters, which may have no memory yet; they stay the same tensor
/// objects. If the checkpoint has float32 master copies of parameters that were shorter, a wider
/// parameter takes these.
void load_parameters(const Checkpoint& checkpoint, const Parameters& parameters);

/// Local. Sets the state of an optimizer of these parameters. A master copy that the checkpoint
/// does not have is the saved parameter itself.
void load_optimizer(const Checkpoint& checkpoint, const Optimizer& optimizer,
                    const Parameters& parameters);

/// **Collective.** Compares the checksums of all files, each on one rank. DataError, the same on
/// all ranks, naming the damaged files.
void verify(const Checkpoint& checkpoint, const Group& group);

/// DataError if the checkpoint has a parameter that is not one of these, or lacks one, or has
/// another shape for it. `parameters` are those of the full model.
void check_model(const Checkpoint& checkpoint, const Parameters& parameters);

}  // namespace tessera
