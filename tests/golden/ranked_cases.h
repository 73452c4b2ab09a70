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

/// The rank's side: answers every case that it was started for.
int answer_as_rank(const RankAnswer& answer);
Json answer_dtensor(const Json& test_case, World& world);
Json answer_flat_collectives(const Json& test_case, World& world);
Json answer_olmo_step(const Json& test_case, World& world);

}  // namespace tessera::golden
