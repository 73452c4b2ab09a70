#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/flight_dump.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 8;  // Levels; a dump has five.
constexpr int64_t kLargestWorld = 1 << 20;

Json parse_json(std::string_view text, std::string_view origin) {
  const auto watch_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) throw DataError(concat(origin, ": nested too deeply for a dump"));
    return true;
  };
  try {
    return Json::parse(text, watch_depth);
  } catch (const Json::exception& error) {
    const auto* place = dynamic_cast<const Json::parse_error*>(&error);
    throw DataError(concat(origin, ": broken JSON",
                           place == nullptr ? "" : concat(" near byte ", place->byte),
                           "; was the file cut off, or is it no dump?"));
  }
}

// C0, DEL and, in UTF-8, C1: a dump must not steer the terminal of who reads it.
std::string without_controls(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || c1) text[i] = ' ';
    if (c1) text[i + 1] = ' ';
  }
  return text;
}

/// One value of the document, which knows its way from the root for messages.
class Field {
 public:
  Field(const Json& value, std::string_view origin) : value_(value), key_(origin) {}

  [[noreturn]] void refuse(std::string_view expected) const {
    throw DataError(concat(origin(), ": ", path(), " is ", shown(), "; expected ", expected));
  }

  Field at(std::string_view key) const {
    if (!value_.is_object()) refuse("an object");
    const auto found = value_.find(key);
    if (found == value_.end()) {
      throw DataError(concat(origin(), ": ", path(), " has no field '", key, "'"));
    }
    return Field(*found, this, key);
  }

  int64_t integer(int64_t least, int64_t most = INT64_MAX) const {
    const bool fits = value_.is_number_integer() &&
                      (!value_.is_number_unsigned() || value_.get<uint64_t>() <= INT64_MAX);
    const int64_t number = fits ? value_.get<int64_t>() : 0;
    if (!fits || number < least || number > most) {
      refuse(most == INT64_MAX ? concat("a whole number of at least ", least)
                               : concat("a whole number from ", least, " to ", most));
    }
    return number;
  }

  std::string text() const {
    if (!value_.is_string()) refuse("text");
    return without_controls(value_.get<std::string>());
  }

  bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }

  double duration() const {
    const double number = value_.is_number() ? value_.get<double>() : -1;
    if (!(number >= 0) || !std::isfinite(number)) refuse("a number of at least 0");
    return number;
  }

  bool is_null() const { return value_.is_null(); }

  template <class Read>
  auto list(Read read) const {
    if (!value_.is_array()) refuse("a list");
    std::vector<decltype(read(*this))> results;
    results.reserve(value_.size());
    for (size_t i = 0; i < value_.size(); ++i) results.push_back(read(Field(value_[i], this, i)));
    return results;
  }

  template <class Read>
  void members(Read read) const {
    if (!value_.is_object()) refuse("an object");
    for (const auto& [key, value] : value_.items()) read(key, Field(value, this, key));
  }

  std::string_view origin() const { return parent_ == nullptr ? key_ : parent_->origin(); }

 private:
  Field(const Json& value, const Field* parent, std::string_view key)
      : value_(value), parent_(parent), key_(key) {}
  Field(const Json& value, const Field* parent, size_t index)
      : value_(value), parent_(parent), index_(index) {}

  std::string path() const {
    if (parent_ == nullptr) return "the dump";
    std::string step = index_ ? concat("[", *index_, "]") : std::string(key_);
    if (parent_->parent_ == nullptr) return step;
    return concat(parent_->path(), index_ ? "" : ".", step);
  }

  std::string shown() const {
    constexpr size_t kMost = 40;
    if (value_.is_structured()) return value_.is_array() ? "a list" : "an object";
    const std::string text = value_.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kMost ? text : concat(text.substr(0, kMost), "…");
  }

  const Json& value_;
  const Field* parent_ = nullptr;
  std::string_view key_;  // Of the root: the origin.
  std::optional<size_t> index_;
};

RankGroup ranks_of(const Field& field, const FlightDump& dump) {
  const std::string text = field.text();
  Json list;
  try {
    list = parse_json(text, field.origin());
  } catch (const DataError&) {
    field.refuse("a list of ranks as text, \"[0, 1]\"");
  }
  const Field inside(list, field.origin());
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
    entry.at(dtypes_key).refuse(concat("one dtype for each of ", sizes.size(), " shapes"));
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

// Each entry has its group, under the group's name, and comes after the one before it.
std::vector<FlightEntry> entries_of(const Field& root, const std::vector<FlightGroup>& groups) {
  std::map<int64_t, std::array<std::string, 2>> names;
  for (const FlightGroup& group : groups) names[group.id] = {group.name, group.desc};
  int64_t last = -1;
  return root.at("entries").list([&](const Field& field) {
    FlightEntry entry = entry_of(field);
    if (entry.record_id <= last) field.at("record_id").refuse("more than in the entry before");
    last = entry.record_id;
    const auto group = names.find(entry.group_id);
    if (group == names.end()) field.at("pg_id").refuse("the pg_id of a group of pg_config");
    const auto name = field.at("process_group").list([](const Field& part) { return part.text(); });
    if (!std::ranges::equal(name, group->second)) {
      field.at("process_group").refuse("name and desc of the group that pg_id names");
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
  const Json document = parse_json(text, origin);
  const Field root(document, origin);
  FlightDump dump{.version = root.at("version").text()};
  if (!dump.version.starts_with("2.")) root.at("version").refuse("\"2.10\" or another of \"2.\"");
  dump.world_size = root.at("world_size").integer(1, kLargestWorld);
  dump.rank = {root.at("rank").integer(0, dump.world_size - 1)};
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
