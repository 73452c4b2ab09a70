#include <algorithm>
#include <array>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/text.h"
#include "tessera/format/flight_dump.h"

namespace tessera {
namespace {

using Field = JsonField;

constexpr int64_t kLargestWorld = 1 << 20;

RankGroup ranks_of(const Field& field, const FlightDump& dump) {
  const std::string text = field.text();
  const JsonSource source{.origin = field.origin(), .what = "list of ranks"};
  nlohmann::json list;
  try {
    list = parse_json(text, source);
  } catch (const DataError&) {
    field.refuse("a list of ranks as text, \"[0, 1]\"");
  }
  const Field inside(list, source);
  RankGroup ranks = to_ranks(
      inside.list([&](const Field& rank) { return rank.integer(0, dump.world_size - 1); }));
  RankGroup sorted = ranks;
  std::ranges::sort(sorted);
  const bool repeats = std::ranges::adjacent_find(sorted) != sorted.end();
  if (repeats || !std::ranges::binary_search(sorted, dump.rank)) {
    field.refuse(concat("different ranks, among them ", dump.rank));
  }
  return ranks;
}

std::vector<FlightGroup> groups_of(const Field& root, const FlightDump& dump) {
  std::vector<FlightGroup> groups;
  const Field config = root.at("pg_config");
  const Field statuses = root.at("pg_status");
  config.members([&](const std::string& name, const Field& field) {
    FlightGroup group{.id = field.at("pg_id").integer(0),
                      .name = field.at("name").text(),
                      .desc = field.at("desc").text(),
                      .ranks = ranks_of(field.at("ranks"), dump)};
    if (group.name != name) field.at("name").refuse("the name under which the group is listed");
    const std::string key = std::to_string(group.id);
    const Field status = statuses.at(key);
    group.last_enqueued = status.at("last_enqueued_collective").integer(0);
    group.last_started = status.at("last_started_collective").integer(0);
    group.last_completed = status.at("last_completed_collective").integer(0);
    groups.push_back(std::move(group));
  });
  std::ranges::sort(groups, {}, &FlightGroup::id);
  if (std::ranges::adjacent_find(groups, {}, &FlightGroup::id) != groups.end()) {
    config.refuse("different pg_id for its groups");
  }
  return groups;
}

std::vector<FlightTensor> tensors_of(const Field& entry, std::string_view sizes_key,
                                     std::string_view dtypes_key) {
  const auto sizes = entry.at(sizes_key).list([](const Field& tensor) {
    return tensor.list([](const Field& size) { return size.integer(0); });
  });
  const auto dtypes = entry.at(dtypes_key).list([](const Field& dtype) { return dtype.text(); });
  if (dtypes.size() != sizes.size()) {
    entry.at(dtypes_key).refuse(concat("one dtype per shape, of ", sizes.size(), " shapes"));
  }
  std::vector<FlightTensor> tensors;
  for (size_t i = 0; i < sizes.size(); ++i) tensors.push_back({sizes[i], dtypes[i]});
  return tensors;
}

FlightState state_of(const Field& field) {
  const std::string text = field.text();
  for (const FlightState state :
       {FlightState::kScheduled, FlightState::kStarted, FlightState::kCompleted}) {
    if (text == to_string(state)) return state;
  }
  field.refuse("\"scheduled\", \"started\" or \"completed\"");
}

std::optional<int64_t> time_of(const Field& field) {
  return field.is_null() ? std::nullopt : std::optional(field.integer(0));
}

std::optional<double> duration_of(const Field& field) {
  return field.is_null() ? std::nullopt : std::optional(field.duration());
}

FlightEntry entry_of(const Field& field) {
  return {.record_id = field.at("record_id").integer(0),
          .group_id = field.at("pg_id").integer(0),
          .collective_seq_id = field.at("collective_seq_id").integer(0),
          .p2p_seq_id = field.at("p2p_seq_id").integer(0),
          .op_id = field.at("op_id").integer(0),
          .profiling_name = field.at("profiling_name").text(),
          .inputs = tensors_of(field, "input_sizes", "input_dtypes"),
          .outputs = tensors_of(field, "output_sizes", "output_dtypes"),
          .state = state_of(field.at("state")),
          .retired = field.at("retired").boolean(),
          .is_p2p = field.at("is_p2p").boolean(),
          .timeout_ms = field.at("timeout_ms").integer(0),
          .time_created_ns = field.at("time_created_ns").integer(0),
          .time_started_ns = time_of(field.at("time_discovered_started_ns")),
          .time_completed_ns = time_of(field.at("time_discovered_completed_ns")),
          .duration_ms = duration_of(field.at("duration_ms"))};
}

// Each entry has a known group, with the group's name, and follows the previous one.
std::vector<FlightEntry> entries_of(const Field& root, const std::vector<FlightGroup>& groups) {
  std::map<int64_t, std::array<std::string, 2>> names;
  for (const FlightGroup& group : groups) names[group.id] = {group.name, group.desc};
  int64_t last = -1;
  return root.at("entries").list([&](const Field& field) {
    FlightEntry entry = entry_of(field);
    if (entry.record_id <= last) field.at("record_id").refuse("more than in the previous entry");
    last = entry.record_id;
    const auto group = names.find(entry.group_id);
    if (group == names.end()) field.at("pg_id").refuse("the pg_id of a group of pg_config");
    const auto name = field.at("process_group").list([](const Field& part) { return part.text(); });
    if (!std::ranges::equal(name, group->second)) {
      field.at("process_group").refuse("name and desc of the group of pg_id");
    }
    return entry;
  });
}

}  // namespace

FlightDump parse_flight_dump(std::string_view text, std::string_view origin) {
  if (text.size() > kLargestFlightDump) {
    throw DataError(concat(origin, ": larger than the ",
                           with_thousands(static_cast<int64_t>(kLargestFlightDump)),
                           " bytes that a dump may have"));
  }
  const JsonSource source{.origin = origin, .what = "dump"};
  const nlohmann::json document = parse_json(text, source);
  const Field root(document, source);
  FlightDump dump{.version = root.at("version").text()};
  if (!dump.version.starts_with("2."))
    root.at("version").refuse("\"2.10\" or another \"2.\" version");
  dump.world_size = root.at("world_size").integer(1, kLargestWorld);
  dump.rank = GlobalRank{root.at("rank").integer(0, dump.world_size - 1)};
  dump.host = root.at("host").text();
  dump.pid = root.at("pid").integer(0);
  dump.job = root.at("job").text();
  dump.restart = root.at("restart").integer(0);
  dump.reason = root.at("reason").text();
  dump.created_ns = root.at("created_ns").integer(0);
  dump.groups = groups_of(root, dump);
  dump.entries = entries_of(root, dump.groups);
  return dump;
}

}  // namespace tessera
