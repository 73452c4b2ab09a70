#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/megatron_getters.h"
#include "tests/golden/surroundings.h"

namespace tessera::golden {

/// One rank's life in the operations of megatron_groups, from a process in which nothing has
/// happened. It acts on the process, so one at a time.
class Life {
 public:
  /// The case says what the columns of a snapshot are, and must outlive this.
  explicit Life(const Json& test_case);

  /// What an operation answers, or "refused"; UnknownName for one that is in no registry.
  Json answer(const Json& op);

  /// Groups that the peer made and ours did not: those before an initialisation failed. What is
  /// made from now on is counted behind them.
  void count_groups(int64_t number) { num_groups_ += number; }
  int64_t num_groups() const { return num_groups_; }

 private:
  using Operation = Json (Life::*)(const Json& op);
  static const std::map<std::string, Operation>& operations();

  Json init_dist(const Json& op);
  Json init(const Json& op);
  Json take_snapshot(const Json& op);
  Json getter(const Json& op);
  Json call(const Json& op);
  Json globals_not_none(const Json& op);
  Json groups(const Json& op);
  Json update_pg_timeout(const Json& op);
  Json create_group(const Json& op);
  Json nccl_options(const Json& op);
  Json overwrite(const Json& op);
  Json embedding_ranks(const Json& op);
  Json buffer(const Json& op);

  Json index_of(const Group& group) const;

  const Json& test_case_;
  Surroundings surroundings_;
  int64_t num_groups_ = 0;     // Of all ranks, since the beginning.
  int64_t first_planned_ = 0;  // Where the present plan's begin among them.
  std::vector<std::pair<Group, int64_t>> made_by_hand_;
  bool made_groups_ = false;         // By hand, since the last destroy.
  Json all_groups_ = Json::array();  // Name and ranks of each.
  std::vector<at::Tensor> buffers_;  // Kept, so that no storage is used twice.
};

}  // namespace tessera::golden
