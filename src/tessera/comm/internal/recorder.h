#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/launch_info.h"
#include "tessera/comm/sent_bytes.h"
#include "tessera/format/flight_dump.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// A communicator, as the recorder knows it.
struct RecordedGroup {
  FlightGroup flight;
  std::string engine;  // "gloo", "shm"; known once it is connected.
  int64_t num_operations = 0;
};

/// Source and destination of a send or recv, as group ranks.
struct P2pEnds {
  bool is_send = false;
  int64_t self = 0;
  int64_t peer = 0;
};

/// An operation to record.
struct RecordedCall {
  const char* name = "";  // A literal.
  uint64_t sequence = 0;  // Number of the group's collective.
  uint64_t p2p_sequence = 0;
  std::optional<P2pEnds> p2p = std::nullopt;
  std::chrono::milliseconds timeout{};
  std::span<const at::Tensor> inputs = {};
  std::optional<std::vector<int64_t>> output = std::nullopt;  // Default: as the inputs.
  std::string_view purpose = {};  // The name of the caller's group; several share a communicator.
  int64_t sent_bytes = 0;
};

/// The operation that a rank is in, or the last one it completed.
struct LatestOperation {
  bool inside = false;
  std::string operation;  // "all_reduce #17 of group dp"; empty before the first.
};

/// Records the last operations of this rank; always on. Slots are reused, so that recording
/// allocates nothing once all are in use.
class Recorder {
 public:
  static constexpr size_t kCapacity = 1000;

  /// From now on SIGUSR1 writes its dump, unless the program handles that signal itself.
  static std::shared_ptr<Recorder> make(const LaunchInfo& launch, const std::string& job);

  std::shared_ptr<RecordedGroup> add_group(const std::string& name, const std::string& desc,
                                           const RankGroup& ranks);
  /// What its operations go through. Call it before the first is recorded.
  void set_engine(RecordedGroup& group, const std::string& engine);
  /// Returns the number of the record, for the calls below.
  uint64_t scheduled(const std::shared_ptr<RecordedGroup>& group, const RecordedCall& call);
  void waiting(uint64_t record);
  void completed(uint64_t record);
  /// Of all operations so far, by their purpose.
  SentBytes sent_bytes() const;

  /// What this rank does outside of operations: "connect of group dp"; empty if nothing.
  void set_place(const std::string& place);
  LatestOperation latest_operation() const;
  /// The number of the last collective of each group, by FlightGroup::name.
  std::map<std::string, int64_t> calls() const;
  FlightDump dump(const std::string& reason) const;
  /// Writes the dump to TESSERA_TRACE_DIR, or to the job's folder in the temporary directory.
  /// Returns the path of the file; empty if it cannot be written.
  std::string write_dump(const std::string& reason) const noexcept;

 private:
  // A few shapes fit into the slot, so that a record touches three cache lines.
  struct Shapes {
    static constexpr size_t kTensors = 4;
    static constexpr size_t kSizes = 8;
    size_t num_tensors = 0;
    std::array<uint8_t, kTensors> dims{};
    std::array<at::ScalarType, kTensors> dtypes{};
    std::array<int64_t, kSizes> sizes{};
  };
  struct Slot {
    uint64_t record = 0;
    const char* name = "";
    RecordedGroup* group = nullptr;  // Kept by groups_.
    uint64_t sequence = 0;
    uint64_t p2p_sequence = 0;
    std::optional<P2pEnds> p2p;
    int64_t operation = 0;
    FlightState state = FlightState::kScheduled;
    std::chrono::milliseconds timeout{};
    int64_t created_ns = 0;
    int64_t started_ns = 0;
    int64_t completed_ns = 0;
    Shapes shapes;
    std::unique_ptr<std::vector<FlightTensor>> more;  // The inputs, if they do not fit.
    std::unique_ptr<std::vector<int64_t>> output;  // Output shape, if it differs from the inputs'.
  };

  Recorder(const LaunchInfo& launch, const std::string& job) : launch_(launch), job_(job) {}
  Slot* find(uint64_t record);
  const Slot& newest(uint64_t back) const;
  static std::string place_of(const Slot& slot);
  void count(const RecordedCall& call);
  static void keep_shapes(std::span<const at::Tensor> inputs, Slot& slot);
  static std::vector<FlightTensor> inputs_of(const Slot& slot);
  static FlightEntry entry_of(const Slot& slot);

  const LaunchInfo launch_;
  const std::string job_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  uint64_t num_records_ = 0;
  std::string place_;
  std::vector<std::shared_ptr<RecordedGroup>> groups_;
  SentBytes sent_bytes_;
};

}  // namespace tessera::comm::detail
