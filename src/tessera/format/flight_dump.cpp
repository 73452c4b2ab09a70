#include "tessera/format/flight_dump.h"

#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/format/flight_match.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// PyTorch stores the ranks of a group as text: "[0, 1]".
std::string ranks_text(const RankGroup& ranks) {
  return concat("[", join(ranks, ", "), "]");
}

Json config_of(const std::vector<FlightGroup>& groups) {
  Json config = Json::object();
  for (const FlightGroup& group : groups) {
    TSR_ASSERT(!config.contains(group.name), "two groups are called '", group.name, "'");
    config[group.name] = {{"name", group.name},
                          {"desc", group.desc},
                          {"ranks", ranks_text(group.ranks)},
                          {"pg_id", group.id}};
  }
  return config;
}

Json status_of(const std::vector<FlightGroup>& groups) {
  Json status = Json::object();
  for (const FlightGroup& group : groups) {
    status[std::to_string(group.id)] = {{"last_enqueued_collective", group.last_enqueued},
                                        {"last_started_collective", group.last_started},
                                        {"last_completed_collective", group.last_completed}};
  }
  return status;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json sizes_of(const std::vector<FlightTensor>& tensors) {
  Json sizes = Json::array();
  for (const FlightTensor& tensor : tensors) sizes.push_back(tensor.sizes);
  return sizes;
}

Json dtypes_of(const std::vector<FlightTensor>& tensors) {
  Json dtypes = Json::array();
  for (const FlightTensor& tensor : tensors) dtypes.push_back(tensor.dtype);
  return dtypes;
}

Json entry_of(const FlightEntry& entry, const FlightDump& dump) {
  const FlightGroup& group = group_of(dump, entry);
  return {{"record_id", entry.record_id},
          {"pg_id", entry.group_id},
          {"process_group", Json::array({group.name, group.desc})},
          {"collective_seq_id", entry.collective_seq_id},
          {"p2p_seq_id", entry.p2p_seq_id},
          {"op_id", entry.op_id},
          {"profiling_name", entry.profiling_name},
          {"time_created_ns", entry.time_created_ns},
          {"duration_ms", or_null(entry.duration_ms)},
          {"input_sizes", sizes_of(entry.inputs)},
          {"input_dtypes", dtypes_of(entry.inputs)},
          {"output_sizes", sizes_of(entry.outputs)},
          {"output_dtypes", dtypes_of(entry.outputs)},
          {"state", to_string(entry.state)},
          {"time_discovered_started_ns", or_null(entry.time_started_ns)},
          {"time_discovered_completed_ns", or_null(entry.time_completed_ns)},
          {"retired", entry.retired},
          {"timeout_ms", entry.timeout_ms},
          {"is_p2p", entry.is_p2p},
          {"frames", Json::array()}};
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const char* to_string(FlightState state) {
  switch (state) {
    case FlightState::kScheduled:
      return "scheduled";
    case FlightState::kStarted:
      return "started";
    case FlightState::kCompleted:
      return "completed";
  }
  TSR_ASSERT(false, "a value of FlightState has no name");
  return "";
}

std::string to_string(const FlightTensor& tensor) {
  return concat(tensor.dtype, "[", join(tensor.sizes, ", "), "]");
}

std::string to_json(const FlightDump& dump) {
  const Json head{{"version", dump.version},
                  {"rank", dump.rank.value},
                  {"world_size", dump.world_size},
                  {"host", dump.host},
                  {"pid", dump.pid},
                  {"job", dump.job},
                  {"restart", dump.restart},
                  {"reason", dump.reason},
                  {"created_ns", dump.created_ns},
                  {"pg_config", config_of(dump.groups)},
                  {"pg_status", status_of(dump.groups)}};
  // One entry per line, so that a dump can be read and searched.
  std::string text = line_of(head);
  text.back() = ',';
  text += "\n\"entries\":[";
  std::string_view between = "\n";
  for (const FlightEntry& entry : dump.entries) {
    text.append(between).append(line_of(entry_of(entry, dump)));
    between = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace tessera
