#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A file that appears under its name when it is finished, whole or not at all: a reader never sees
/// half of it, and where something fails a file of that name stays what it was.
class NewFile {
 public:
  /// DataError where its folder cannot be written to.
  explicit NewFile(std::string path);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  /// What was not finished is removed.
  ~NewFile();

  /// What a file that was never finished was to be called, as a killed program leaves it:
  /// "a.json" for "a.json.part123"; "" for other names.
  static std::string_view name_of_draft(std::string_view name);

  const std::string& path() const { return path_; }
  /// DataError, as for all that the operating system refuses.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// It is on the disk when this returns.
  void finish();

 private:
  std::string path_;
  std::string draft_;  // Where it is written until then.
  Descriptor file_;
};

}  // namespace tessera
