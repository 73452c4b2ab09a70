#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/text/tokenizer.h"

namespace tessera TSR_API {

/// Texts to encode into one file of raw little-endian token ids (TokenFile).
struct TokenizeJob {
  std::vector<std::string> inputs;  // Text files, and folders of them, as docs/data.md says.
  std::string output;               // The path of the token file, which must not exist.
  DType dtype = DType::kU16;        // U16 or U32.
  int64_t end = 0;                  // The id behind each document.
  bool add_special = true;          // The tokens that the tokenizer puts around each document.
  int64_t threads = 1;              // That encode; at most 1,024.
  int64_t save_ms = 2000;           // How often to note how far the job is.
  bool restart = false;             // Begin anew instead of going on with an unfinished file.
};

/// How far a job is.
struct TokenizeProgress {
  int64_t bytes = 0;          // Of the texts, read so far.
  int64_t total_bytes = 0;    // Of all files of the job.
  int64_t resumed_bytes = 0;  // Of those, what an earlier run had done.
  int64_t tokens = 0;         // Written so far.
  int64_t documents = 0;      // Finished so far.
  int64_t skipped = 0;        // Files of folders that are no text.
};

/// The type that holds a tokenizer's ids: U16 if it can.
DType smallest_token_type(const Tokenizer& tokenizer);

/// Encodes every document, each file one, and writes the ids in order. Memory does not grow with
/// the texts, unless a tokenizer allows no division of a long one. The output appears when it is
/// finished; until then `output`.part holds what is done, and the same job goes on there after an
/// interruption. DataError for texts that are not UTF-8 and files that cannot be read or written;
/// ConfigError if the output exists, or an unfinished one belongs to another job. `show` is called
/// after each chunk of text.
TokenizeProgress tokenize_files(const Tokenizer& tokenizer, const TokenizeJob& job,
                                const std::function<void(const TokenizeProgress&)>& show = {});

}  // namespace tessera
