#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/format/checkpoint/checkpoint_index.h"

namespace tessera TSR_API {

/// A checkpoint while it is written, in the folder "<final path>.tmp". It appears under its final
/// path when it is published, complete or not at all. One process holds this object; others may
/// write files into path().
class CheckpointDraft {
 public:
  static constexpr std::string_view kSuffix = ".tmp";  // Follows the final path until publish().

  /// Replaces a draft that a killed process left. ConfigError if there is a checkpoint at
  /// `final_path`, or if another process is writing one there; DataError if the file system has
  /// less than `bytes` free or refuses.
  CheckpointDraft(std::string final_path, int64_t bytes);
  CheckpointDraft(CheckpointDraft&&) noexcept = default;
  CheckpointDraft& operator=(CheckpointDraft&&) = delete;
  /// Removes a draft that was not published.
  ~CheckpointDraft();

  /// The folder to write files into, until publish().
  const std::string& path() const { return path_; }
  /// Writes the index and renames the folder. On return, everything is on the disk. DataError if
  /// the index is incomplete or the operating system refuses.
  void publish(const CheckpointIndex& index);

 private:
  std::string final_path_;
  std::string path_;
  Descriptor folder_;  // Locked while this object lives.
};

/// The checkpoints of a run: folders "step-00000100", and a file "latest".
class CheckpointFolder {
 public:
  /// The file with the name of the checkpoint that was published last.
  static constexpr std::string_view kLatest = "latest";

  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  /// The folder that holds them all; may not exist yet.
  const std::string& path() const { return path_; }
  /// "step-00000100" for step 100.
  static std::string name_of(int64_t step);
  /// Where the checkpoint of a step is, or would be.
  std::string path_of(int64_t step) const;
  /// The steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// The newest complete one.
  std::optional<int64_t> newest() const;

  /// Sets "latest", after a checkpoint was published.
  void set_latest(int64_t step) const;
  /// Removes the oldest checkpoints beyond `count`, and drafts of killed processes.
  void keep_last(int64_t count) const;
  /// Removes all checkpoints and drafts; other files stay.
  void clear() const;

 private:
  void remove_drafts() const;

  std::string path_;
};

/// The checkpoint that a path stands for: the path itself, or the newest one of a run directory or
/// of its "checkpoints" folder. DataError if there is none.
std::string find_checkpoint(const std::string& path);
/// The subfolder of a run directory for checkpoints.
inline constexpr std::string_view kCheckpointsFolder = "checkpoints";

}  // namespace tessera
