#pragma once

#include <map>
#include <string>

#include "tests/golden/golden.h"
#include "tests/golden/surroundings.h"

namespace tessera::golden {

/// One rank's life in the operations of megatron_groups, from a process in which nothing has
/// happened. It acts on the process, so one at a time.
class Life {
 public:
  /// The case says what the columns of a snapshot are, and must outlive this.
  explicit Life(const Json& test_case);

  /// What an operation answers, or "refused". `first` is the number of groups that were created
  /// before those that exist now.
  Json answer(const Json& op, int64_t first);

 private:
  Json buffer(const Json& op);

  const Json& test_case_;
  Surroundings surroundings_;
  std::map<std::string, const void*> storages_;  // Of the buffers, by dtype and name.
};

/// The options of a kind of group in a file of this text.
Json nccl_options_answer(const std::string& name, const std::string& yaml);

}  // namespace tessera::golden
