#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text::detail {

/// A text file to encode.
struct Document {
  std::string path;
  int64_t bytes = 0;
  int64_t changed = 0;          // Its time of change, in nanoseconds.
  bool may_be_skipped = false;  // Found in a folder: skipped if it is no text.

  friend bool operator==(const Document&, const Document&) = default;
};

/// The files, and those in the folders, in order. DataError if one is not there.
std::vector<Document> list_documents(const std::vector<std::string>& inputs);

/// A part of a document, with some of what follows it.
struct Chunk {
  size_t document = 0;
  int64_t begin = 0;  // Offset in the document.
  std::string text = "";
  size_t size = 0;       // Bytes of the part itself.
  bool is_last = false;  // Of its document.
  bool skipped = false;  // The document is no text.
};

/// Reads documents chunk by chunk, each up to a place where a text can probably be divided.
class ChunkReader {
 public:
  /// Begins at an offset of a document.
  ChunkReader(const Tokenizer& tokenizer, const std::vector<Document>& documents, size_t document,
              int64_t offset);

  /// False at the end of the last document.
  bool next(Chunk& chunk);

 private:
  bool fill(const Document& document, Chunk& chunk);

  const Tokenizer& tokenizer_;
  const std::vector<Document>& documents_;
  size_t document_;
  int64_t offset_;
  Descriptor file_;
};

/// `size` bytes of a file from `begin` on; DataError if it has fewer.
std::string read_part(const Descriptor& file, const Document& document, int64_t begin,
                      int64_t size);

}  // namespace tessera::text::detail
