#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A file that appears under its name when it is finished, whole or not at all: a reader never sees
/// a partial file, and after a failure an earlier file of that name is unchanged.
class NewFile {
 public:
  /// DataError if its folder is not writable.
  explicit NewFile(std::string path);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  /// Removes an unfinished file.
  ~NewFile();

  /// The final name of an unfinished file, which a killed program may leave: "a.json" for
  /// "a.json.part123"; "" for other names.
  static std::string_view name_of_draft(std::string_view name);

  /// The final name, also while the file is unfinished.
  const std::string& path() const { return path_; }
  /// DataError if the operating system refuses, here and below.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// CRC-32C of the bytes written so far.
  uint32_t checksum() const { return checksum_; }
  /// Bytes written so far.
  int64_t size() const { return size_; }
  /// The file is on the disk when this returns.
  void finish();

 private:
  /// Lets the disk work on what is written so far, so that finish() has less to wait for.
  void send_to_disk();

  std::string path_;
  std::string draft_;  // Path of the unfinished file.
  Descriptor file_;
  uint32_t checksum_ = 0;
  int64_t size_ = 0;
  int64_t sent_ = 0;  // Bytes that the disk was given.
};

}  // namespace tessera
