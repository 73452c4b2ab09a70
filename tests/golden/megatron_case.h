#pragma once

#include <optional>
#include <string>

#include "tessera/plan/megatron.h"
#include "tests/golden/golden.h"
#include "tests/testkit/temporary_folder.h"

/// Cases of megatron_groups: their arguments, and the rules that hold for them.
namespace tessera::golden {

/// The table's keyword arguments. A file that they tell the text of is there as long as this value.
class MegatronArguments {
 public:
  explicit MegatronArguments(Json arguments);
  const MegatronConfig& config() const { return config_; }

 private:
  std::optional<testkit::TemporaryFolder> folder_;  // Of the file.
  MegatronConfig config_;
};

/// The rule by which arguments that the peer takes are refused; null where there is none.
const Rule* refusal_rule(const Json& arguments);
/// The same without NCCL sections, keys and groups that Megatron does not know.
Json without_unknown_names(Json arguments);
/// Whether the order ends with pp, but not in lower case.
bool is_upper_case_order(const Json& arguments);

}  // namespace tessera::golden
