#include "tessera/comm/internal/heartbeat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"

namespace tessera::comm::detail {
namespace {

// "are in all_reduce #17 of group dp".
std::string place_of(const RankReport& report, bool several) {
  if (!report.heartbeat)
    return several ? "have sent no heartbeat yet" : "has sent no heartbeat yet";
  const Heartbeat& heartbeat = *report.heartbeat;
  const std::string operation = heartbeat.operation.empty() ? "any operation" : heartbeat.operation;
  if (report.silent_seconds) {
    return concat(several ? "were" : "was", " last seen ",
                  heartbeat.inside              ? "in "
                  : heartbeat.operation.empty() ? "before "
                                                : "after ",
                  operation, several ? " and have" : " and has", " sent no heartbeat for ",
                  seconds_text(*report.silent_seconds));
  }
  const char* be = several ? "are " : "is ";
  if (heartbeat.inside) return concat(be, "in ", operation);
  return heartbeat.operation.empty() ? concat(be, "in no operation and had none before")
                                     : concat(be, "in no operation; the last was ", operation);
}

}  // namespace

std::string to_text(const Heartbeat& heartbeat) {
  nlohmann::json json{{"count", heartbeat.count}, {"pid", heartbeat.pid},
                      {"host", heartbeat.host},   {"inside", heartbeat.inside},
                      {"end", heartbeat.end},     {"operation", heartbeat.operation}};
  if (heartbeat.calls_at_close) json["calls_at_close"] = *heartbeat.calls_at_close;
  return json.dump();
}

Heartbeat parse_heartbeat(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  Heartbeat heartbeat{.count = json.at("count"),
                      .pid = json.at("pid"),
                      .host = json.at("host"),
                      .inside = json.at("inside"),
                      .operation = json.at("operation"),
                      .end = json.at("end")};
  if (json.contains("calls_at_close")) {
    heartbeat.calls_at_close = json["calls_at_close"].get<std::map<std::string, int64_t>>();
  }
  return heartbeat;
}

std::string seconds_text(double seconds) {
  const auto tenths = static_cast<int64_t>(seconds * 10);
  return concat(tenths / 10, ".", tenths % 10, " s");
}

std::string describe(int64_t rank, const Heartbeat& heartbeat) {
  return concat("rank ", rank, " (pid ", heartbeat.pid, " on host ", heartbeat.host, ")");
}

std::string summarize(const std::vector<RankReport>& reports) {
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
