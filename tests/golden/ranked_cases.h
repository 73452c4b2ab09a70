#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/world.h"
#include "tests/golden/golden.h"

/// Tables whose cases are run by real ranks, one start of processes for each size of the world.
namespace tessera::golden {

/// What a rank answers to a case.
using RankAnswer = std::function<Json(const Json& test_case, World& world)>;

/// The cases, each with "answers", those of all ranks of its world. `job` is run_as_rank's.
std::vector<Json> with_answers(const std::string& job, std::vector<Json> cases,
                               const std::function<int64_t(const Json&)>& world_size);

/// The rank's side: answers every case that it was started for, in a world of its own.
int answer_as_rank(const RankAnswer& answer);
/// The same in a world that is there, which must be closed afterwards: what to print then.
std::string answers_of_rank(const RankAnswer& answer, World& world);
Json answer_dtensor(const Json& test_case, World& world);
Json answer_flat_collectives(const Json& test_case, World& world);
Json answer_olmo_step(const Json& test_case, World& world);
Json answer_tensor_collectives(const Json& test_case, World& world);
/// OLMo-core's utilities act on the current world, so this has a start of its own.
int answer_olmo_utils();

}  // namespace tessera::golden
