#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tests/golden/golden.h"

/// Megatron's getters by their names and Python arguments, as the table speaks of them.
namespace tessera::golden {

/// "get_x(flag=True,number=2)".
struct Call {
  std::string name;
  Json arguments = Json::object();
};
Call parse_call(const std::string& label);

/// Where the group stands among all groups of all ranks in the order of creation, counted from
/// `first`; null for no group.
Json index_of(const std::optional<Group>& group, int64_t first);

/// What a getter of groups answers, as indices counted from `first`, or "refused".
Json group_answer(const Call& call, int64_t first);
/// What any other getter answers, or "refused".
Json value_answer(const Call& call);

/// What all the case's getters answer now: {"g": […], "v": […]}.
Json snapshot(const Json& test_case, int64_t first);

/// What `body` returns, or "refused" where it throws ConfigError or StateError.
Json answer_or_refusal(const std::function<Json()>& body);
/// The peer's answer with its errors, in either of their two forms, as "refused".
Json with_refusals(Json answer);

}  // namespace tessera::golden
