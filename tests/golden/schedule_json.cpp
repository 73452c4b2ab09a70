#include "tests/golden/schedule_json.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::golden {
namespace {

bool is_reshard(const Json& text) {
  return text.is_string() && text.get<std::string>().ends_with("RESHARD");
}

}  // namespace

Json to_json(const Schedule& schedule, const Json& idle) {
  Json rows = Json::array();
  for (const ScheduleRow& row : schedule.rows()) {
    Json& texts = rows.emplace_back(Json::array());
    for (const Action& action : row) {
      texts.push_back(action.is_idle() ? idle : Json(to_string(action)));
    }
  }
  return rows;
}

std::vector<ScheduleRow> rows_of(const Json& rows) {
  std::vector<ScheduleRow> result;
  for (const Json& texts : rows) {
    ScheduleRow& row = result.emplace_back();
    for (const Json& text : texts) {
      row.push_back(text.is_null() ? Action() : parse_action(text.get<std::string>()));
    }
  }
  return result;
}

Json with_sorted_reshards(Json rows) {
  for (Json& row : rows) {
    for (auto begin = row.begin(); begin != row.end();) {
      const auto end = std::find_if_not(begin, row.end(), is_reshard);
      std::sort(begin, end);
      begin = end == row.end() ? end : std::next(end);
    }
  }
  return rows;
}

Json result_or_refused_text(const std::function<Json()>& body) {
  try {
    return result_or_refusal(body);
  } catch (const DataError&) {
    return refusal();
  }
}

}  // namespace tessera::golden
