#include "tessera/text/tokenize_files.h"

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/base/read_file.h"
#include "tessera/text/internal/ordered_work.h"
#include "tessera/text/internal/token_draft.h"

namespace tessera {

using namespace text::detail;

namespace {

using Clock = std::chrono::steady_clock;

void check_job(const Tokenizer& tokenizer, const TokenizeJob& job) {
  TSR_CHECK(!job.inputs.empty(), "no input was given");
  TSR_CHECK(job.threads >= 1 && job.threads <= 1024, job.threads, " threads; choose 1 to 1,024");
  TSR_CHECK(job.dtype == DType::kU16 || job.dtype == DType::kU32, "tokens cannot be written as ",
            to_string(job.dtype), "; choose U16 or U32");
  TSR_CHECK(!job.output.ends_with(".npy"), job.output,
            ": only raw numbers are written; choose a name that ends with .bin");
  TSR_CHECK(!job.output.ends_with(".u32") || job.dtype == DType::kU32, job.output,
            ": its name says U32, but its type is ", to_string(job.dtype),
            "; choose a name that ends with .bin");
  const int64_t most = job.dtype == DType::kU16 ? std::numeric_limits<uint16_t>::max()
                                                : std::numeric_limits<int32_t>::max();
  TSR_CHECK(tokenizer.vocab_size() - 1 <= most, "ids up to ", tokenizer.vocab_size() - 1,
            " do not fit ", to_string(job.dtype), "; choose U32");
  TSR_CHECK(job.end >= 0 && job.end < tokenizer.vocab_size(), "the end of a document is id ",
            job.end, ", outside the tokenizer's ", tokenizer.vocab_size());
}

std::string job_text(const Tokenizer& tokenizer, const TokenizeJob& job,
                     const std::vector<Document>& documents) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const Document& document : documents) {
    files.push_back({document.path, document.bytes, document.changed});
  }
  const nlohmann::ordered_json text{{"tokenizer", tokenizer.fingerprint()},
                                    {"dtype", to_string(job.dtype)},
                                    {"end", job.end},
                                    {"add_special", job.add_special},
                                    {"files", files}};
  return text.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Writes encoded chunks in order. A chunk whose end turned out to be no place to divide the text
/// is encoded again with those behind it.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, const TokenizeJob& job, const std::vector<Document>& documents,
         TokenDraft& draft)
      : tokenizer_(tokenizer),
        job_(job),
        documents_(documents),
        draft_(draft),
        encoder_(tokenizer) {
    progress_.tokens = draft.position().tokens;
    progress_.documents = draft.position().document;
    for (size_t i = 0; i < documents.size(); ++i) {
      progress_.total_bytes += documents[i].bytes;
      if (static_cast<int64_t>(i) < progress_.documents) progress_.bytes += documents[i].bytes;
    }
    progress_.bytes += draft.position().offset;
    progress_.resumed_bytes = progress_.bytes;
  }

  void take(EncodedChunk encoded) {
    if (reopened_ && !again(encoded)) return;
    if (!encoded.fits) {
      reopened_ = encoded.chunk.begin;
      waits_for_ = waits_for_ == 0 ? 1 : 2 * waits_for_;  // So that no text is read too often.
      waited_ = 0;
      return;
    }
    reopened_.reset();
    waits_for_ = 0;
    write(encoded);
  }

  const TokenizeProgress& progress() const { return progress_; }

 private:
  // Returns whether the chunk has been encoded again, from where the last one began.
  bool again(EncodedChunk& encoded) {
    if (++waited_ < waits_for_ && !encoded.chunk.is_last) return false;
    Chunk& chunk = encoded.chunk;
    const Document& document = documents_[chunk.document];
    const Descriptor file = open_plain_file(document.path);
    const auto before = static_cast<size_t>(chunk.begin - *reopened_);
    chunk.text = read_part(file, document, *reopened_, chunk.begin - *reopened_) + chunk.text;
    chunk.size += before;
    chunk.begin = *reopened_;
    encoded = encode_chunk(encoder_, std::move(chunk), documents_);
    return true;
  }

  void write(const EncodedChunk& encoded) {
    const Chunk& chunk = encoded.chunk;
    if (chunk.begin == 0 && job_.add_special && !chunk.skipped) put(tokenizer_.ids_before());
    put(encoded.ids);
    progress_.bytes +=
        chunk.skipped ? documents_[chunk.document].bytes : static_cast<int64_t>(chunk.size);
    if (chunk.is_last) end_document(chunk.skipped);
    const Clock::time_point now = Clock::now();
    if (now < next_save_) return;
    next_save_ = now + std::chrono::milliseconds(job_.save_ms);
    draft_.save({.document = progress_.documents,
                 .offset = chunk.is_last ? 0 : chunk.begin + static_cast<int64_t>(chunk.size),
                 .tokens = progress_.tokens});
  }

  void end_document(bool skipped) {
    ++progress_.documents;
    if (skipped) {
      ++progress_.skipped;
      return;
    }
    const auto after = job_.add_special ? tokenizer_.ids_after() : std::span<const int64_t>();
    put(after);
    if (after.empty() || after.back() != job_.end) put({&job_.end, 1});
  }

  void put(std::span<const int64_t> ids) {
    draft_.write(ids);
    progress_.tokens += std::ssize(ids);
  }

  const Tokenizer& tokenizer_;
  const TokenizeJob& job_;
  const std::vector<Document>& documents_;
  TokenDraft& draft_;
  Encoder encoder_;
  TokenizeProgress progress_;
  std::optional<int64_t> reopened_;  // Where a chunk begins that is to be encoded again.
  int64_t waits_for_ = 0;            // With so many chunks behind it.
  int64_t waited_ = 0;
  Clock::time_point next_save_ = Clock::now() + std::chrono::milliseconds(job_.save_ms);
};

}  // namespace

DType smallest_token_type(const Tokenizer& tokenizer) {
  const bool small = tokenizer.vocab_size() - 1 <= std::numeric_limits<uint16_t>::max();
  return small ? DType::kU16 : DType::kU32;
}

TokenizeProgress tokenize_files(const Tokenizer& tokenizer, const TokenizeJob& job,
                                const std::function<void(const TokenizeProgress&)>& show) {
  check_job(tokenizer, job);
  const std::vector<Document> documents = list_documents(job.inputs);
  TokenDraft draft(job, job_text(tokenizer, job, documents));
  const DraftPosition begin = draft.position();
  Writer writer(tokenizer, job, documents, draft);
  OrderedWork work(
      tokenizer,
      ChunkReader(tokenizer, documents, static_cast<size_t>(begin.document), begin.offset),
      documents, job.threads);
  for (EncodedChunk chunk; work.next(chunk);) {
    writer.take(std::move(chunk));
    if (show) show(writer.progress());
  }
  draft.finish();
  return writer.progress();
}

}  // namespace tessera
