#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/nemo/config.h"
#include "tessera/plan/plan.h"

namespace tessera {
namespace nemo TSR_API {

/// The sizes that create_device_mesh takes, with its defaults.
///
/// Designated initialisers must be in the order of the fields. For calls whose keywords are in
/// another order: ParallelismSizes().with_tp_size(2).with_dp_size(2)
struct ParallelismSizes {
  std::optional<int64_t> dp_size = std::nullopt;  // None or below 1: the rest of the ranks.
  std::optional<int64_t> dp_replicate_size = std::nullopt;  // None or below 1: 1.
  int64_t tp_size = 1;                                      // Ranks that shard each layer.
  int64_t pp_size = 1;                                      // Ranks per pipeline.
  int64_t cp_size = 1;                                      // Ranks that split a sequence.
  int64_t ep_size = 1;                                      // Ranks that split a layer's experts.

  /// A copy with another dp_size.
  ParallelismSizes with_dp_size(int64_t size) const {
    return with(&ParallelismSizes::dp_size, size);
  }
  /// A copy with another dp_replicate_size.
  ParallelismSizes with_dp_replicate_size(int64_t size) const {
    return with(&ParallelismSizes::dp_replicate_size, size);
  }
  /// A copy with another tp_size.
  ParallelismSizes with_tp_size(int64_t size) const {
    return with(&ParallelismSizes::tp_size, size);
  }
  /// A copy with another pp_size.
  ParallelismSizes with_pp_size(int64_t size) const {
    return with(&ParallelismSizes::pp_size, size);
  }
  /// A copy with another cp_size.
  ParallelismSizes with_cp_size(int64_t size) const {
    return with(&ParallelismSizes::cp_size, size);
  }
  /// A copy with another ep_size.
  ParallelismSizes with_ep_size(int64_t size) const {
    return with(&ParallelismSizes::ep_size, size);
  }

  friend bool operator==(const ParallelismSizes&, const ParallelismSizes&) = default;

 private:
  template <class Field>
  ParallelismSizes with(Field ParallelismSizes::*field, int64_t size) const {
    ParallelismSizes changed = *this;
    changed.*field = size;
    return changed;
  }
};

/// Which ranks split the experts.
enum class MoeMesh {
  kDocument,  // (pp, ep_shard, ep) over dp and cp: every tp rank has its own experts.
  kToday,     // (ep_shard, ep) over dp, cp and tp, one mesh per pipeline stage.
};

/// Settings of NeMo's meshes.
struct MeshOptions {
  MoeMesh moe_mesh = MoeMesh::kDocument;  // Only if ep_size is above 1.
  /// Time-out of the mesh's groups; default: the world's.
  std::optional<int64_t> timeout_minutes = std::nullopt;
  /// These ranks instead of the whole world, in row-major order of the mesh.
  std::optional<std::vector<int64_t>> ranks = std::nullopt;
};

}  // namespace nemo
}  // namespace tessera

namespace tessera TSR_API {

/// Every group of NeMo AutoModel's device meshes in a world of this many ranks.
///
/// The layout "world" is (pp, dp_replicate, dp_shard, cp, tp) for FSDP2, (dp, cp, tp) for
/// Megatron-FSDP, the last axis fastest, and (dp) for DDP, which has no mesh but averages over all
/// ranks. If ep_size is above 1, "moe" is (pp, ep_shard, ep, tp), or (pp, ep_shard, ep) today.
///
/// There is one spec per axis, then the flattened ones (dp, dp_shard_cp, dp_cp), then ep_shard and
/// ep; the MoE mesh has the world's pipelines. ConfigError for all that NeMo refuses, or turns into
/// a mesh that does not cover the ranks.
Plan nemo_plan(int64_t world, const nemo::DistributedConfig& config,
               const nemo::ParallelismSizes& sizes = {}, const nemo::MeshOptions& options = {});

/// The experts' mesh alone: "moe" is (pp, ep_shard, ep, tp), where tp is the rest of the world.
Plan nemo_moe_plan(int64_t world, int64_t pp_size, int64_t ep_shard_size, int64_t ep_size,
                   const std::string& backend);

}  // namespace tessera
