#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/checkpoint/entries.h"
#include "tessera/comm/group.h"
#include "tessera/format/safetensors.h"

namespace tessera TSR_API {

/// The result of a save, the same on all ranks except the times.
struct SaveReport {
  std::string path;     // Of the checkpoint.
  int64_t step = 0;     // That of the request.
  int64_t bytes = 0;    // Of all ranks.
  double stall_s = 0;   // How long this rank's caller waited: planning and the copy.
  double seconds = 0;   // From the start until it was published.
  std::string error{};  // Why it was not published; "" if it was.

  /// Whether the checkpoint was published.
  bool succeeded() const { return error.empty(); }
};

/// A checkpoint to save.
struct SaveRequest {
  std::string path;     // The folder, which must not exist.
  int64_t step = 0;     // Steps done so far; stored in the checkpoint.
  Metadata state = {};  // Rank 0's counts.
};

/// Saves checkpoints in the background: begin() copies this rank's pieces to host memory, threads
/// write them while training continues. At most one save is in flight.
///
///   CheckpointSaver saver(world.group());
///   saver.begin({.path = "c/1", .step = 1}, entries);
///   … train; after each step: if (const auto report = saver.poll()) …
///   const auto last = saver.finish();
///
/// All functions except in_flight() are **collective**, from one thread. Errors of files and
/// disks are not thrown, but reported; the same on all ranks. They leave nothing behind.
class CheckpointSaver {
 public:
  explicit CheckpointSaver(Group group);
  /// Waits for this rank's files; a save in flight is not published.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Starts a save. When it returns, the entries may change. StateError if one is in flight;
  /// ConfigError if the ranks' entries do not make up tensors.
  void begin(SaveRequest request, const CheckpointEntries& entries);
  /// Whether a save has begun and neither poll() nor finish() has reported it.
  bool in_flight() const;
  /// The report if all ranks have written their files; then the checkpoint is published.
  std::optional<SaveReport> poll();
  /// Waits for the save in flight; nothing if there is none.
  std::optional<SaveReport> finish();

  /// begin() and finish() without the copy of tensors in CPU memory.
  SaveReport save(SaveRequest request, const CheckpointEntries& entries);

 private:
  struct InFlight;
  enum class Copy { kAlways, kIfNeeded };
  void start(SaveRequest request, const CheckpointEntries& entries, Copy copy);
  /// The path of rank 0's draft; "" if it could not make one.
  std::string make_draft();
  void copy_values(const CheckpointEntries& entries, Copy copy);
  SaveReport publish();

  Group group_;
  std::vector<at::Tensor> host_;  // Reused by the next save.
  std::unique_ptr<InFlight> save_;
};

}  // namespace tessera
