#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/checkpoint/checkpoint_index.h"
#include "tessera/format/checkpoint/save_plan.h"

namespace tessera TSR_API {

/// The subfolder of a checkpoint for a tensor: "optim" if its name begins with "optim.", otherwise
/// "model".
std::string subfolder_of(std::string_view name);
/// The folder of the weights in a checkpoint.
inline constexpr std::string_view kModelSubfolder = "model";
/// The folder of the optimizer's state in a checkpoint.
inline constexpr std::string_view kOptimSubfolder = "optim";

/// Writes one rank's pieces below an existing folder, as safetensors in PyTorch's sharded dialect
/// (torch.distributed.checkpoint.HuggingFaceStorageReader reads it). A file holds a name once, so
/// the second piece of a tensor is in a second file. All files are on the disk when this returns.
///
/// `bytes_of` returns the row-major bytes of a piece; they must stay valid until the next call.
/// Returns the files and pieces written.
CheckpointIndex write_shard(const std::string& folder, size_t rank,
                            std::span<const PieceToSave> pieces,
                            const std::function<std::span<const std::byte>(size_t)>& bytes_of);

/// The bytes of a rank's files, without headers.
int64_t bytes_of_pieces(std::span<const PieceToSave> pieces);

}  // namespace tessera
