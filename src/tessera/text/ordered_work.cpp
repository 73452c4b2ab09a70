#include "tessera/text/internal/ordered_work.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {

EncodedChunk encode_chunk(Encoder& encoder, Chunk chunk, const std::vector<Document>& documents) {
  EncodedChunk result{.chunk = std::move(chunk)};
  if (result.chunk.skipped) return result;
  if (const auto invalid = find_invalid(result.chunk.text)) {
    throw DataError(concat(documents[result.chunk.document].path, ": byte ",
                           result.chunk.begin + static_cast<int64_t>(*invalid),
                           " is not UTF-8; convert the file, e.g. by iconv"));
  }
  result.fits = encoder.append_part(
      {.text = result.chunk.text, .size = result.chunk.size, .continues = result.chunk.begin > 0},
      result.ids);
  return result;
}

OrderedWork::OrderedWork(const Tokenizer& tokenizer, ChunkReader reader,
                         const std::vector<Document>& documents, int64_t threads)
    : tokenizer_(tokenizer),
      documents_(documents),
      most_under_way_(2 * threads + 2),
      reader_(std::move(reader)) {
  for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

OrderedWork::~OrderedWork() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void OrderedWork::work() {
  Encoder encoder(tokenizer_);
  Chunk chunk;
  int64_t number = 0;
  while (take(chunk, number)) {
    EncodedChunk result;
    try {
      result = encode_chunk(encoder, std::move(chunk), documents_);
    } catch (...) {
      result.error = std::current_exception();
    }
    put(number, std::move(result));
  }
}

bool OrderedWork::take(Chunk& chunk, int64_t& number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped_ || at_end_ || begun_ - taken_ < most_under_way_; });
  if (stopped_ || at_end_) return false;
  number = begun_;
  try {
    at_end_ = !reader_.next(chunk);
  } catch (...) {
    at_end_ = true;
    done_[begun_++].error = std::current_exception();
  }
  if (at_end_) {
    changed_.notify_all();
    return false;
  }
  ++begun_;
  return true;
}

void OrderedWork::put(int64_t number, EncodedChunk result) {
  {
    const std::lock_guard lock(mutex_);
    done_[number] = std::move(result);
  }
  changed_.notify_all();
}

bool OrderedWork::next(EncodedChunk& chunk) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_.contains(taken_) || (at_end_ && taken_ == begun_); });
  if (!done_.contains(taken_)) return false;
  chunk = std::move(done_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  if (chunk.error) std::rethrow_exception(chunk.error);
  return true;
}

}  // namespace tessera::text::detail
