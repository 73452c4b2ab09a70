#pragma once

#include <optional>
#include <string>

#include "tessera/plan/megatron/plan.h"
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

/// The keyword arguments of a case, without nulls; `use_tp_pp_dp_mapping`, where the case has it,
/// is its order.
Json arguments_of(const Json& test_case);

/// The rule by which arguments that the peer takes are refused; null where there is none.
const Rule* refusal_rule(const Json& arguments);
/// The same for NCCL options as the text of a file.
const Rule* nccl_rule(const std::string& yaml);

/// Arguments without NCCL sections, keys and groups that Megatron does not know.
Json without_unknown_names(Json arguments);
/// The same for NCCL options by section and key.
Json known_nccl_options(const Json& sections);
bool is_nccl_section(const std::string& name);
bool is_nccl_key(const std::string& key);

/// The order in lower case, where it is one that ends with pp, but not in lower case; nothing
/// otherwise.
std::optional<std::string> lower_case_order(const Json& arguments);

/// NCCL options with those left out that have their default; null where that is all of them: the
/// peer passes such an object, which says nothing.
Json without_defaults(Json options);

}  // namespace tessera::golden
