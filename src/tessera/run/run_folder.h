#pragma once

#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What is done with a folder that holds a run already.
enum class FormerRun { kRefuse, kResume, kOverwrite };

/// The folder of one run: what was run, what was measured, and the weights that came out.
///
///   RunFolder folder("runs/1", FormerRun::kRefuse);  // Looks, and changes nothing.
///   … whatever may fail …
///   folder.begin();                                  // Now the folder is this run's.
class RunFolder {
 public:
  static constexpr std::string_view kConfig = "config.toml";     // What was run.
  static constexpr std::string_view kMetrics = "metrics.jsonl";  // One line a step.
  static constexpr std::string_view kReport = "report.html";     // The run as a page.
  static constexpr std::string_view kModel = "model";            // A Hugging Face folder.
  static constexpr std::string_view kPipeline = "pipeline";      // Recorded steps.

  /// ConfigError where the folder has content and `former` does not say what to do with it, where
  /// it is to be overwritten and holds no run, or to be resumed and holds no checkpoint.
  RunFolder(std::string path, FormerRun former);

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const;

  /// Makes the folder; of a former run exactly what a run writes is removed, and foreign files
  /// stay. DataError where the operating system refuses.
  void begin() const;
  /// A file in the folder, whole or not at all.
  void write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
};

}  // namespace tessera
