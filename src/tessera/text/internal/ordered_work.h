#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/text/internal/documents.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text::detail {

/// A chunk and its ids.
struct EncodedChunk {
  Chunk chunk;
  std::vector<int64_t> ids = {};
  bool fits = true;                    // Encoder::append_part's answer.
  std::exception_ptr error = nullptr;  // What reading or encoding it threw.
};

/// Encodes the chunks of a reader on several threads and hands them out in order. A few chunks are
/// under way at a time.
class OrderedWork {
 public:
  OrderedWork(const Tokenizer& tokenizer, ChunkReader reader,
              const std::vector<Document>& documents, int64_t threads);
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;
  ~OrderedWork();

  /// False after the last chunk. Throws what reading or encoding threw.
  bool next(EncodedChunk& chunk);

 private:
  void work();
  bool take(Chunk& chunk, int64_t& number);
  void put(int64_t number, EncodedChunk result);

  const Tokenizer& tokenizer_;
  const std::vector<Document>& documents_;
  const int64_t most_under_way_;
  std::mutex mutex_;  // Guards everything below but the threads.
  std::condition_variable changed_;
  ChunkReader reader_;
  std::map<int64_t, EncodedChunk> done_;
  int64_t begun_ = 0;
  int64_t taken_ = 0;
  bool at_end_ = false;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

/// Encodes a chunk; DataError naming the document's file and byte if it is not UTF-8.
EncodedChunk encode_chunk(Encoder& encoder, Chunk chunk, const std::vector<Document>& documents);

}  // namespace tessera::text::detail
