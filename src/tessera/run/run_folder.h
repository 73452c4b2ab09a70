#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"

namespace tessera TSR_API {

class RunLock;

/// What to do with a folder that already holds a run.
enum class FormerRun { kRefuse, kResume, kOverwrite };

/// The folder of one run: its configuration, metrics and final weights. It has one owner: nobody
/// else can construct a RunFolder there while this one exists.
///
///   RunFolder folder("runs/1", FormerRun::kRefuse);  // Checks; changes no files of a run.
///   … setup that may fail …
///   folder.begin();                                  // From here on, the folder is this run's.
class RunFolder {
 public:
  static constexpr std::string_view kConfig = "config.toml";     // The resolved configuration.
  static constexpr std::string_view kMetrics = "metrics.jsonl";  // One line per step.
  static constexpr std::string_view kCsv = "metrics.csv";        // The same as a table.
  static constexpr std::string_view kEvents = "tensorboard";     // TensorBoard's event files.
  static constexpr std::string_view kReport = "report.html";     // The report page.
  static constexpr std::string_view kModel = "model";            // A Hugging Face folder.
  static constexpr std::string_view kCheckpoints = kCheckpointsFolder;  // A CheckpointFolder.
  static constexpr std::string_view kPipeline = "pipeline";             // Recorded pipeline steps.
  static constexpr std::string_view kUnits = "units";  // Recorded steps of sharded units.

  static constexpr std::string_view kTrace = "trace";  // Traces of steps, for Perfetto.

  /// Creates the folder if needed. ConfigError if it belongs to a run in progress, if it is not
  /// empty and `former` is kRefuse, if it is to be overwritten but holds no run, or if it is to be
  /// resumed but holds no complete checkpoint. Temporary files of a killed run do not count as
  /// content. DataError if the operating system refuses.
  RunFolder(std::string path, FormerRun former);
  /// The first of parent/1, parent/2, … that is empty and has no owner.
  static RunFolder next_in(const std::string& parent);
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  /// Removes the folder if this object created it and nothing was written to it.
  ~RunFolder();

  /// As given to the constructor, or made by next_in().
  const std::string& path() const { return path_; }
  /// Of a file in the folder.
  std::string path(std::string_view name) const;

  /// Removes the files of the former run, complete or not; other files stay. DataError if the
  /// operating system refuses.
  void begin() const;
  /// Instead, for a run that continues at a step: removes the metrics of later steps, which it will
  /// do again.
  void resume(int64_t step) const;
  /// Removes the weights that a run left at its end, before it writes those of a later end.
  void remove_model() const;
  /// Writes a file in the folder, whole or not at all.
  void write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace tessera
