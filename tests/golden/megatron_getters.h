#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/comm/group.h"
#include "tests/golden/golden.h"

/// Megatron's getters by their names and Python arguments, as the table speaks of them.
namespace tessera::golden {

struct Call {
  std::string name;
  Json arguments = Json::object();
};
/// "get_x", "get_x()" or "get_x(flag=True, number=2, other=None)".
Call parse_call(const std::string& label);

/// Where a group stands among all groups of all ranks in the order of creation.
using IndexOf = std::function<Json(const Group& group)>;
/// For groups of the current plan, counted from `first`.
Json index_in_plan(const Group& group, int64_t first);

/// The group that a getter answers with.
std::optional<Group> group_of(const Call& call);
/// What any getter answers, groups as indices, or "refused".
Json answer_of(const Call& call, const IndexOf& index_of);

/// What all the case's getters answer now: {"g": […], "v": […]}.
Json snapshot(const Json& test_case, const IndexOf& index_of);

/// What `body` returns, or "refused" where it throws ConfigError or StateError.
Json answer_or_refusal(const std::function<Json()>& body);
/// The peer's answer with its errors, in either of their two forms, as "refused".
Json with_refusals(Json answer);

}  // namespace tessera::golden
