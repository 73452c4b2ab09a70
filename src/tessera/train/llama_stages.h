#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/model/llama.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// The part of each stage, for blocks shared out by even_split_points: the first has the embedding,
/// the last the head. ConfigError where there are more stages than blocks.
std::vector<LlamaPart> llama_parts(const LlamaConfig& config, int64_t num_stages);

/// The stages of a Llama that one rank of a pipeline holds.
struct LlamaStages {
  std::vector<int64_t> indices = {};  // Ascending.
  std::vector<std::shared_ptr<Llama>> parts = {};

  /// Of all parts together. A tied head beside its embedding is listed once.
  NamedParameters parameters() const;
};

/// Without values.
LlamaStages make_llama_stages(const LlamaConfig& config, const LlamaOptions& options,
                              const Schedule& schedule, GroupRank rank);

/// Keeps a head that is tied to an embedding on another stage equal to it.
///
/// Where one rank has both, they are one tensor from here on. Otherwise both ranks hold a copy and
/// their gradients are added up, so that equal updates keep them equal.
class TiedHead {
 public:
  /// **Collective** over the mesh, which has the axes "pp" and "dp" in this
  /// order. The stages have their values.
  TiedHead(const LlamaStages& stages, const Schedule& schedule, const WorldHandle& world,
           const DeviceMesh& mesh);

  /// **Collective.** Adds up the two gradients.
  void add_gradients() const;
  /// Whether the parameter is the second copy, which norms and files do not count again.
  bool is_copy(const at::Tensor& parameter) const;

 private:
  at::Tensor embedding_;           // Undefined where this rank has none,
  at::Tensor head_;                // here the copy.
  std::vector<Group> group_ = {};  // The two ranks, where they are two and this is one of them.
};

/// **Collective.** Writes the stages of the first replica as a Hugging Face folder, a tensor at a
/// time, by rank 0.
void save_llama_stages(const LlamaStages& stages, const TiedHead& tied, const DeviceMesh& mesh,
                       const std::string& folder);

}  // namespace tessera
