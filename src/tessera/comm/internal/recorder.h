#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/launch_info.h"
#include "tessera/format/flight_dump.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// A communicator in the recorder's books.
struct RecordedGroup {
  FlightGroup flight;
  std::string engine;  // "gloo".
  int64_t num_operations = 0;
};

/// The two ends of a send or recv, as group ranks.
struct P2pEnds {
  bool is_send = false;
  int64_t self = 0;
  int64_t peer = 0;
};

/// An operation as the recorder is told of it.
struct RecordedCall {
  const char* name = "";  // Lives for ever: a literal.
  uint64_t sequence = 0;  // Of the group's collectives.
  uint64_t p2p_sequence = 0;
  std::optional<P2pEnds> p2p = std::nullopt;
  std::chrono::milliseconds timeout{};
  std::span<const at::Tensor> inputs = {};
  std::optional<std::vector<int64_t>> output = std::nullopt;  // As the inputs, unless set.
};

/// Where a rank is: in an operation, or after its last one.
struct LatestOperation {
  bool inside = false;
  std::string operation;  // "all_reduce #17 of group dp"; empty before the first.
};

/// The last operations of this rank, always on. Slots are used again, so that recording allocates
/// nothing once they have been round.
class Recorder {
 public:
  static constexpr size_t kCapacity = 1000;

  /// SIGUSR1 asks for its dump from now on, unless the program handles that signal itself.
  static std::shared_ptr<Recorder> make(const LaunchInfo& launch, const std::string& job);

  std::shared_ptr<RecordedGroup> add_group(const std::string& name, const std::string& desc,
                                           const std::string& engine, const RankGroup& ranks);
  /// The record's number, for the calls below.
  uint64_t scheduled(const std::shared_ptr<RecordedGroup>& group, const RecordedCall& call);
  void waiting(uint64_t record);
  void completed(uint64_t record);

  /// Where this rank is besides operations: "connect of group dp"; empty: nowhere.
  void set_place(const std::string& place);
  LatestOperation latest_operation() const;
  FlightDump dump(const std::string& reason) const;
  /// Writes the dump to TESSERA_TRACE_DIR, or to a folder of the job among the temporary files.
  /// The file's path; empty where it could not be written.
  std::string write_dump(const std::string& reason) const noexcept;

 private:
  // Shapes one after the other. A few fit into the slot, so that a record touches three cache
  // lines.
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
    std::unique_ptr<std::vector<FlightTensor>> more;  // The inputs, where they are too many.
    std::unique_ptr<std::vector<int64_t>> output;     // Its shape, where it is not the inputs'.
  };

  Recorder(const LaunchInfo& launch, const std::string& job) : launch_(launch), job_(job) {}
  Slot* find(uint64_t record);
  const Slot& newest(uint64_t back) const;
  static std::string place_of(const Slot& slot);
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
};

}  // namespace tessera::comm::detail
