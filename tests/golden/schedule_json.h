#pragma once

#include <functional>

#include "tessera/schedule/schedule.h"
#include "tests/golden/golden.h"

namespace tessera::golden {

/// Each row as a list of the text forms of its actions; `idle` stands for an idle slot.
Json to_json(const Schedule& schedule, const Json& idle);

/// Rows of a table as lists of texts, null and "" being idle slots.
std::vector<ScheduleRow> rows_of(const Json& rows);

/// The rows with each run of adjacent RESHARDs sorted: its order means nothing.
Json with_sorted_reshards(Json rows);

/// Like result_or_refusal, for inputs that are read from text: DataError is a refusal, too.
Json result_or_refused_text(const std::function<Json()>& body);

}  // namespace tessera::golden
