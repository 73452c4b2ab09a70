#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

class RunLock;

/// What is done with a folder that holds a run already.
enum class FormerRun { kRefuse, kResume, kOverwrite };

/// The folder of one run: what was run, what was measured, and the weights that came out. It has
/// one owner: from the first look to its end nobody else can have a RunFolder there.
///
///   RunFolder folder("runs/1", FormerRun::kRefuse);  // Looks, and changes no file of a run.
///   … whatever may fail …
///   folder.begin();                                  // Now its content is this run's.
class RunFolder {
 public:
  static constexpr std::string_view kConfig = "config.toml";     // What was run.
  static constexpr std::string_view kMetrics = "metrics.jsonl";  // One line a step.
  static constexpr std::string_view kReport = "report.html";     // The run as a page.
  static constexpr std::string_view kModel = "model";            // A Hugging Face folder.
  static constexpr std::string_view kPipeline = "pipeline";      // Recorded steps.

  /// Makes the folder, unless it is there. ConfigError where it belongs to a run that is going on,
  /// where it has content and `former` does not say what to do with it, where it is to be
  /// overwritten and holds no run, or to be resumed and holds no checkpoint. What a killed run left
  /// half written is no content. DataError where the operating system refuses.
  RunFolder(std::string path, FormerRun former);
  /// The first of parent/1, parent/2, … that has no content and no owner.
  static RunFolder next_in(const std::string& parent);
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  /// A folder that was made and never written to goes.
  ~RunFolder();

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const;

  /// Of a former run exactly what a run writes is removed, finished or not, and foreign files stay.
  /// DataError where the operating system refuses.
  void begin() const;
  /// A file in the folder, whole or not at all.
  void write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace tessera
