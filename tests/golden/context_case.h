#pragma once

#include "tests/golden/golden.h"

/// What the checks of context_balance share.
namespace tessera::golden {

/// Numbers as runs [first, count] of consecutive ones; of padding, [-1, count].
Json runs_of(const std::vector<int64_t>& numbers);

/// [answer(0), …, answer(degree - 1)]; also asks for rank 0 of a degree below 1, which ours
/// refuses.
Json by_rank(int64_t degree, const std::function<Json(int64_t rank)>& answer);

/// The rule by which ours refuses such documents; null where none does.
const Rule* rule_of_documents(const Json& doc_lens);

/// The parts of the table that speak of OLMo-core.
std::vector<Part> olmo_context_parts();

}  // namespace tessera::golden
