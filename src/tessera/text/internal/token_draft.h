#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/text/internal/documents.h"
#include "tessera/text/tokenize_files.h"

namespace tessera::text::detail {

/// How far an unfinished token file is: what it holds, and where the rest begins.
struct DraftPosition {
  int64_t document = 0;
  int64_t offset = 0;  // In that document.
  int64_t tokens = 0;
};

/// An unfinished token file, OUT.part, with a note of its job and position, OUT.state.json, from
/// which the same job goes on after an interruption.
class TokenDraft {
 public:
  /// `job_text` says what the job is: an unfinished file of another one is a ConfigError, unless
  /// the job begins anew. So is a finished output.
  TokenDraft(const TokenizeJob& job, std::string job_text);

  const DraftPosition& position() const { return position_; }
  /// DataError if the system refuses, here and below.
  void write(std::span<const int64_t> ids);
  /// From now on the job would go on here. All written tokens are on the disk.
  void save(const DraftPosition& position);
  /// The output appears, and the note vanishes.
  void finish();

 private:
  void resume();

  const TokenizeJob& job_;
  std::string job_text_;
  std::string draft_, state_;  // Paths.
  Descriptor file_;
  DraftPosition position_;
  std::string buffer_;
};

}  // namespace tessera::text::detail
