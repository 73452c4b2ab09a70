#include "tessera/comm/internal/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/descriptor.h"
#include "tessera/base/error.h"
#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/dump_signal.h"

namespace tessera::comm::detail {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::optional<int64_t> if_set(int64_t time) {
  return time == 0 ? std::nullopt : std::optional(time);
}

// The job's own folder: its name cannot be guessed, and no other user may write to it.
Descriptor own_folder(const std::filesystem::path& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw_system_error("cannot create " + path.string());
  }
  Descriptor folder =
      checked(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path.string());
  struct stat found {};
  const bool known = fstat(folder.get(), &found) == 0;
  if (!known || found.st_uid != geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw DataError(concat(path.string(), " is accessible to other users"));
  }
  return folder;
}

std::filesystem::path trace_folder(const std::string& job) {
  const char* chosen = std::getenv("TESSERA_TRACE_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return std::filesystem::temp_directory_path() / concat("tessera-trace-", job);
}

Descriptor open_trace_folder(const std::filesystem::path& path) {
  if (std::getenv("TESSERA_TRACE_DIR") == nullptr) return own_folder(path);
  std::filesystem::create_directories(path);
  return checked(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path.string());
}

// Readers of the folder see a complete dump or none. Existing links are replaced, never followed.
void write_whole(const Descriptor& folder, const std::string& name, const std::string& text) {
  static std::atomic<int> num_drafts = 0;
  const std::string draft = concat(name, ".", getpid(), ".", num_drafts++, ".tmp");
  unlinkat(folder.get(), draft.c_str(), 0);
  const Descriptor file = checked(
      openat(folder.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH),
      draft);
  write_all(file, text, draft);
  if (renameat(folder.get(), draft.c_str(), folder.get(), name.c_str()) != 0) {
    throw_system_error("cannot rename " + draft);
  }
}

}  // namespace

std::shared_ptr<Recorder> Recorder::make(const LaunchInfo& launch, const std::string& job) {
  const std::shared_ptr<Recorder> recorder(new Recorder(launch, job));
  add_to_dumps(recorder);
  return recorder;
}

std::shared_ptr<RecordedGroup> Recorder::add_group(const std::string& name, const std::string& desc,
                                                   const RankGroup& ranks) {
  const std::lock_guard lock(mutex_);
  auto group = std::make_shared<RecordedGroup>();
  group->flight = {
      .id = static_cast<int64_t>(groups_.size()), .name = name, .desc = desc, .ranks = ranks};
  groups_.push_back(group);
  return group;
}

void Recorder::set_engine(RecordedGroup& group, const std::string& engine) {
  const std::lock_guard lock(mutex_);
  group.engine = engine;
}

uint64_t Recorder::scheduled(const std::shared_ptr<RecordedGroup>& group,
                             const RecordedCall& call) {
  const std::lock_guard lock(mutex_);
  const uint64_t record = num_records_++;
  if (slots_.size() < kCapacity) slots_.emplace_back();
  Slot& slot = slots_[record % kCapacity];
  slot.record = record;
  slot.name = call.name;
  slot.group = group.get();
  slot.sequence = call.sequence;
  slot.p2p_sequence = call.p2p_sequence;
  slot.p2p = call.p2p;
  slot.operation = ++group->num_operations;
  slot.state = FlightState::kScheduled;
  slot.timeout = call.timeout;
  slot.created_ns = now_ns();
  slot.started_ns = 0;
  slot.completed_ns = 0;
  keep_shapes(call.inputs, slot);
  slot.output = call.output ? std::make_unique<std::vector<int64_t>>(*call.output) : nullptr;
  if (!call.p2p) group->flight.last_enqueued = static_cast<int64_t>(call.sequence);
  count(call);
  return record;
}

void Recorder::count(const RecordedCall& call) {
  const auto known = sent_bytes_.find(call.purpose);
  if (known != sent_bytes_.end()) {
    known->second += call.sent_bytes;
  } else {
    sent_bytes_.emplace(call.purpose, call.sent_bytes);
  }
}

SentBytes Recorder::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

void Recorder::keep_shapes(std::span<const at::Tensor> inputs, Slot& slot) {
  Shapes& shapes = slot.shapes;
  shapes.num_tensors = 0;
  slot.more = nullptr;
  size_t num_sizes = 0;
  for (const at::Tensor& input : inputs) num_sizes += static_cast<size_t>(input.dim());
  if (inputs.size() > Shapes::kTensors || num_sizes > Shapes::kSizes) {
    slot.more = std::make_unique<std::vector<FlightTensor>>();
    for (const at::Tensor& input : inputs) {
      slot.more->push_back({input.sizes().vec(), c10::toString(input.scalar_type())});
    }
    return;
  }
  int64_t* at = shapes.sizes.data();
  for (const at::Tensor& input : inputs) {
    shapes.dims[shapes.num_tensors] = static_cast<uint8_t>(input.dim());
    shapes.dtypes[shapes.num_tensors++] = input.scalar_type();
    at = std::ranges::copy(input.sizes(), at).out;
  }
}

std::vector<FlightTensor> Recorder::inputs_of(const Slot& slot) {
  if (slot.more) return *slot.more;
  std::vector<FlightTensor> inputs;
  const int64_t* at = slot.shapes.sizes.data();
  for (size_t i = 0; i < slot.shapes.num_tensors; ++i) {
    const int64_t* const end = at + slot.shapes.dims[i];
    inputs.push_back({.sizes = {at, end}, .dtype = c10::toString(slot.shapes.dtypes[i])});
    at = end;
  }
  return inputs;
}

// Null if a newer operation uses the slot.
Recorder::Slot* Recorder::find(uint64_t record) {
  Slot& slot = slots_[record % kCapacity];
  return slot.record == record ? &slot : nullptr;
}

void Recorder::waiting(uint64_t record) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(record);
  if (slot == nullptr || slot->state != FlightState::kScheduled) return;
  slot->state = FlightState::kStarted;
  slot->started_ns = now_ns();
  if (!slot->p2p) slot->group->flight.last_started = static_cast<int64_t>(slot->sequence);
}

void Recorder::completed(uint64_t record) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(record);
  if (slot == nullptr) return;
  slot->state = FlightState::kCompleted;
  slot->completed_ns = now_ns();
  if (!slot->p2p) slot->group->flight.last_completed = static_cast<int64_t>(slot->sequence);
}

const Recorder::Slot& Recorder::newest(uint64_t back) const {
  return slots_[(num_records_ - 1 - back) % kCapacity];
}

std::string Recorder::place_of(const Slot& slot) {
  const FlightGroup& group = slot.group->flight;
  if (!slot.p2p) return concat(slot.name, " #", slot.sequence, " of group ", group.desc);
  return concat(slot.name, " #", slot.p2p_sequence, slot.p2p->is_send ? " to" : " from", " rank ",
                group.ranks[static_cast<size_t>(slot.p2p->peer)], " in group ", group.desc);
}

void Recorder::set_place(const std::string& place) {
  const std::lock_guard lock(mutex_);
  place_ = place;
}

// A rank is stuck in the oldest operation that a thread waits for; few are pending at once.
LatestOperation Recorder::latest_operation() const {
  constexpr uint64_t kMostPending = 64;
  const std::lock_guard lock(mutex_);
  if (!place_.empty()) return {.inside = true, .operation = place_};
  if (slots_.empty()) return {};
  const Slot* inside = nullptr;
  for (uint64_t back = 0; back < std::min<uint64_t>(slots_.size(), kMostPending); ++back) {
    if (newest(back).state == FlightState::kStarted) inside = &newest(back);
  }
  return {.inside = inside != nullptr,
          .operation = place_of(inside != nullptr ? *inside : newest(0))};
}

std::map<std::string, int64_t> Recorder::calls() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> calls;
  for (const auto& group : groups_) calls[group->flight.name] = group->flight.last_enqueued;
  return calls;
}

FlightEntry Recorder::entry_of(const Slot& slot) {
  FlightEntry entry{.record_id = static_cast<int64_t>(slot.record),
                    .group_id = slot.group->flight.id,
                    .collective_seq_id = static_cast<int64_t>(slot.sequence),
                    .p2p_seq_id = static_cast<int64_t>(slot.p2p_sequence),
                    .op_id = slot.operation,
                    .profiling_name = concat(slot.group->engine, ":", slot.name),
                    .state = slot.state,
                    .retired = slot.state == FlightState::kCompleted,
                    .is_p2p = slot.p2p.has_value(),
                    .timeout_ms = slot.timeout.count(),
                    .time_created_ns = slot.created_ns,
                    .time_started_ns = if_set(slot.started_ns),
                    .time_completed_ns = if_set(slot.completed_ns)};
  if (slot.p2p) {
    const auto [is_send, self, peer] = *slot.p2p;
    entry.profiling_name += concat(" ", self, is_send ? "->" : "<-", peer);
  }
  entry.inputs = inputs_of(slot);
  entry.outputs = entry.inputs;
  if (slot.output && !entry.inputs.empty()) {
    entry.outputs = {{.sizes = *slot.output, .dtype = entry.inputs[0].dtype}};
  }
  return entry;
}

FlightDump Recorder::dump(const std::string& reason) const {
  FlightDump dump{.rank = GlobalRank{launch_.rank},
                  .world_size = launch_.world_size,
                  .host = host_name(),
                  .pid = getpid(),
                  .job = job_,
                  .restart = launch_.restart_count,
                  .reason = reason,
                  .created_ns = now_ns()};
  const std::lock_guard lock(mutex_);
  for (const auto& group : groups_) dump.groups.push_back(group->flight);
  for (uint64_t back = slots_.size(); back > 0; --back) {
    dump.entries.push_back(entry_of(newest(back - 1)));
  }
  return dump;
}

std::string Recorder::write_dump(const std::string& reason) const noexcept {
  try {
    const std::filesystem::path folder = trace_folder(job_);
    const std::string name = concat("rank_", launch_.rank, ".json");
    write_whole(open_trace_folder(folder), name, to_json(dump(reason)));
    return (folder / name).string();
  } catch (const std::exception&) {  // A full disk must not hide the error that is being reported.
    return "";
  }
}

}  // namespace tessera::comm::detail
