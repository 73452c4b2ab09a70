#include "tessera/text/internal/documents.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/read_file.h"
#include "tessera/base/text.h"
#include "tessera/data/folder_text.h"

namespace tessera::text::detail {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20U;
constexpr int64_t kContext = int64_t{16} << 10U;  // What a chunk shows of the next one.

Document document_at(const std::string& path, bool may_be_skipped) {
  const Descriptor file = open_plain_file(path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw_system_error("cannot read " + path);
  return {.path = path,
          .bytes = status.st_size,
          .changed = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
          .may_be_skipped = may_be_skipped};
}

// The text without a character that was cut at its end.
size_t whole_characters(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && text.size() - end < 4 &&
         (static_cast<unsigned char>(text[end - 1]) & 0xc0U) == 0x80) {
    --end;
  }
  const bool cut = end > 0 && static_cast<unsigned char>(text[end - 1]) >= 0xc0;
  return cut ? end - 1 : text.size();
}

}  // namespace

std::vector<Document> list_documents(const std::vector<std::string>& inputs) {
  std::vector<Document> documents;
  for (const std::string& input : inputs) {
    if (!std::filesystem::is_directory(input)) {
      documents.push_back(document_at(input, false));
      continue;
    }
    for (const std::string& path : text_files_below(input)) {
      documents.push_back(document_at(path, true));
    }
  }
  return documents;
}

std::string read_part(const Descriptor& file, const Document& document, int64_t begin,
                      int64_t size) {
  std::string text(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(file.get(), text.data() + done, text.size() - done,
                              static_cast<off_t>(begin) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + document.path);
    if (got == 0) {
      throw DataError(concat(document.path, " ends at byte ", begin + static_cast<int64_t>(done),
                             "; was it truncated in the meantime?"));
    }
    done += static_cast<size_t>(got);
  }
  return text;
}

ChunkReader::ChunkReader(const Tokenizer& tokenizer, const std::vector<Document>& documents,
                         size_t document, int64_t offset)
    : tokenizer_(tokenizer), documents_(documents), document_(document), offset_(offset) {}

bool ChunkReader::next(Chunk& chunk) {
  if (document_ >= documents_.size()) return false;
  const Document& document = documents_[document_];
  if (!file_.is_open()) file_ = open_plain_file(document.path);
  chunk = {.document = document_, .begin = offset_};
  chunk.is_last = !fill(document, chunk);
  chunk.skipped =
      document.may_be_skipped && chunk.begin == 0 && chunk.text.find('\0') != std::string::npos;
  offset_ += static_cast<int64_t>(chunk.size);
  if (chunk.is_last || chunk.skipped) {
    chunk.is_last = true;
    ++document_;
    offset_ = 0;
    file_.reset();
  }
  return true;
}

// Returns whether the document goes on. Reads further until there is a place to divide it.
bool ChunkReader::fill(const Document& document, Chunk& chunk) {
  const int64_t left = document.bytes - chunk.begin;
  size_t from = kChunk;
  for (int64_t size = kChunk + kContext;; size += size / 2) {
    const int64_t read = std::min(size, left);
    const auto have = static_cast<int64_t>(chunk.text.size());
    chunk.text += read_part(file_, document, chunk.begin + have, read - have);
    if (read == left) break;
    const std::string_view whole(chunk.text.data(), whole_characters(chunk.text));
    const auto division = tokenizer_.find_division(whole, from);
    if (division && *division + kContext / 2 <= whole.size()) {
      chunk.text.resize(whole.size());
      chunk.size = *division;
      return true;
    }
    from = whole.size() - std::min<size_t>(whole.size(), kContext / 2);
  }
  chunk.size = chunk.text.size();
  return false;
}

}  // namespace tessera::text::detail
