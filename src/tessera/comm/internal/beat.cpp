#include "tessera/comm/internal/beat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"

namespace tessera::comm::detail {
namespace {

// "are in all_reduce #17 of group dp".
std::string place_of(const RankReport& report, bool several) {
  if (!report.beat)
    return several ? "have given no sign of life yet" : "has given no sign of life yet";
  const Beat& beat = *report.beat;
  const std::string operation = beat.operation.empty() ? "any operation" : beat.operation;
  if (report.silent_seconds) {
    return concat(several ? "were" : "was", " last seen ",
                  beat.inside              ? "in "
                  : beat.operation.empty() ? "before "
                                           : "after ",
                  operation, several ? " and have" : " and has", " given no sign of life for ",
                  seconds_text(*report.silent_seconds));
  }
  const char* be = several ? "are " : "is ";
  if (beat.inside) return concat(be, "in ", operation);
  return beat.operation.empty() ? concat(be, "in no operation and had none before")
                                : concat(be, "in no operation; the last was ", operation);
}

}  // namespace

std::string to_text(const Beat& beat) {
  return nlohmann::json{{"count", beat.count},   {"pid", beat.pid}, {"host", beat.host},
                        {"inside", beat.inside}, {"end", beat.end}, {"operation", beat.operation}}
      .dump();
}

Beat parse_beat(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.count = json.at("count"),
          .pid = json.at("pid"),
          .host = json.at("host"),
          .inside = json.at("inside"),
          .operation = json.at("operation"),
          .end = json.at("end")};
}

std::string seconds_text(double seconds) {
  const auto tenths = static_cast<int64_t>(seconds * 10);
  return concat(tenths / 10, ".", tenths % 10, " s");
}

std::string describe(int64_t rank, const Beat& beat) {
  return concat("rank ", rank, " (pid ", beat.pid, " on host ", beat.host, ")");
}

std::string where_they_are(const std::vector<RankReport>& reports) {
  std::vector<std::pair<const RankReport*, std::vector<int64_t>>> places;
  for (const RankReport& report : reports) {
    const auto same = std::ranges::find_if(places, [&](const auto& place) {
      return place_of(*place.first, false) == place_of(report, false);
    });
    if (same != places.end()) {
      same->second.push_back(report.rank);
    } else {
      places.push_back({&report, {report.rank}});
    }
  }
  std::vector<std::string> parts;
  for (const auto& [report, ranks] : places) {
    const bool several = ranks.size() > 1;
    parts.push_back(
        concat(several ? "ranks " : "rank ", join(ranks, ", "), " ", place_of(*report, several)));
  }
  return join(parts, "; ");
}

}  // namespace tessera::comm::detail
