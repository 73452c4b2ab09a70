#pragma once

#include <vector>

#include "tests/golden/golden.h"
#include "tests/golden/megatron_life.h"

namespace tessera::golden {

/// One step of a life cycle: what was done, and what peer and library answered, in one form.
struct Step {
  Json op;
  Json expected;
  Json got;
  const Rule* rule = nullptr;
  int64_t num_made = 0;  // Groups that it made, the peer's where it failed after some.

  bool is_init() const { return op.at(0) == "init"; }
  bool is_destroy() const { return op == Json{"call", "destroy_model_parallel"}; }
  bool peer_refused() const { return expected == refusal(); }
  bool refused() const { return got == refusal(); }
};

/// The steps of a life cycle as far as they can be compared: after a step that one side refuses by
/// a rule, both are in different states.
class Script {
 public:
  explicit Script(const Json& test_case);

  const std::vector<Step>& steps() const { return steps_; }
  /// What the operation answers before step `end`, in a new process that has done only these steps.
  /// The groups of all others before `end` count as made, too.
  Json ask_before(size_t end, const std::vector<size_t>& done, const Json& op) const;

 private:
  void play();
  bool count_missing_groups();

  const Json& test_case_;
  std::vector<Step> steps_;
  std::vector<int64_t> missing_;  // By step: groups that the peer made before it failed.
};

}  // namespace tessera::golden
