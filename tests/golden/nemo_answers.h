#pragma once

#include <map>
#include <optional>
#include <string>

#include "tessera/mesh/device_mesh.h"
#include "tests/golden/golden.h"

namespace tessera::golden {

/// What all ranks together see of one mesh, in the form of nemo_mesh.json: dims, shape, coords by
/// rank, every distinct group of each dim. Refused where all of its ranks refuse it.
class MeshAnswer {
 public:
  explicit MeshAnswer(int64_t num_ranks) : coords_(Json::array()), local_ranks_(Json::array()) {
    for (int64_t i = 0; i < num_ranks; ++i) {
      coords_.push_back(nullptr);
      local_ranks_.push_back(nullptr);
    }
  }

  /// What this process's rank sees.
  void add(const DeviceMesh& mesh);
  void add_refusal() { ++num_refused_; }

  /// All of it.
  Json whole() const;
  /// Of a mesh of one axis: its groups, and ranks in them where they are not the coordinates.
  Json line() const;
  /// The same with its size.
  Json sized_line() const;

 private:
  /// What stands in for the answer where the ranks do not agree.
  std::optional<Json> stop() const;
  Json sorted_groups(const std::string& dim) const;

  Json dims_;
  Json shape_;
  Json coords_;
  Json local_ranks_;
  std::map<std::string, std::map<GlobalRank, RankGroup>> groups_;  // By dim and first member.
  int64_t num_members_ = 0;
  int64_t num_refused_ = 0;
  std::string trouble_;
};

/// How many ranks there are, whatever create_device_mesh is told.
int64_t world_of(const Json& input);

/// What create_device_mesh and the helpers answer to a case's input, all ranks together; a refusal
/// where all refuse.
Json nemo_answer(const Json& test_case, bool todays_moe_mesh);

}  // namespace tessera::golden
