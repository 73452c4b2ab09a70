#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

/// TensorBoard's event files: records of a length, a checksum and a protocol-buffer message.
namespace tessera TSR_API {

/// A value of a TensorBoard event.
struct EventScalar {
  std::string_view tag;  // "train/loss": the part before the slash is a section of the page.
  double value = 0;      // Stored as float32.
};

/// A record of such a file. Times are seconds since 1970.
std::string version_record(double time);
/// A record of an event file that holds these values of a step.
std::string scalar_record(double time, int64_t step, std::span<const EventScalar> scalars);
/// Makes readers drop what earlier files of the folder say about this step and later ones.
std::string restart_record(double time, int64_t step);

/// Whether a file has the name of an event file.
bool is_event_file(std::string_view name);

/// A new event file in a folder, after the existing ones in name order. Each record is in the file
/// when append() returns.
class EventFile {
 public:
  /// Creates the folder if needed. `first_step`: the step at which a resumed run continues.
  /// DataError if the operating system refuses, here and below.
  EventFile(const std::string& folder, int64_t first_step);

  /// Adds a record of these values of the step, with the current time.
  void append(int64_t step, std::span<const EventScalar> scalars);
  /// FOLDER/events.out.tfevents.SECONDS.HOST.PID.0.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace tessera
