#include "tessera/comm/shm/collective_queue.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kFlatBytes = size_t{512} << 10;  // Copied and summed by all ranks together.
constexpr size_t kLeastChunk = size_t{64} << 10;

constexpr size_t down_to_line(size_t bytes) {
  return bytes / kLine * kLine;
}
constexpr size_t up_to_line(size_t bytes) {
  return down_to_line(bytes + kLine - 1);
}
constexpr size_t num_chunks(size_t bytes, size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

// Large enough to pay off, small enough that ranks work on different chunks at the same time.
size_t chunk_of(size_t bytes) {
  return std::clamp(down_to_line(bytes / 4), kLeastChunk, kSlotBytes);
}

// The same for chunks with a region for each rank; `bytes` per rank.
size_t region_of(size_t bytes, int size) {
  const auto ranks = static_cast<size_t>(size);
  return std::max(kLine, down_to_line(chunk_of(bytes * ranks) / ranks));
}

struct Piece {
  size_t begin = 0;
  size_t bytes = 0;
};

Piece piece_of(size_t total, size_t chunk, size_t index) {
  const size_t begin = std::min(total, chunk * index);
  return {begin, std::min(chunk, total - begin)};
}

std::vector<size_t> begins_of(const std::vector<size_t>& sizes) {
  std::vector<size_t> begins(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), size_t{0});
  return begins;
}

constexpr std::array kKinds{"all_reduce", "reduce",  "reduce_scatter", "all_gather", "broadcast",
                            "gather",     "scatter", "all_to_all",     "barrier"};
constexpr uint64_t kMore = uint64_t{1} << 63;
constexpr int kBytesShift = 24;

std::string text_of(uint64_t packed) {
  const uint64_t bytes = (packed & ~kMore) >> kBytesShift;
  return concat(kKinds.at(packed & 15), " of ", bytes, " bytes");
}

}  // namespace

uint64_t CollectiveQueue::Call::packed() const {
  return static_cast<uint64_t>(kind) | static_cast<uint64_t>(number) << 4 |
         static_cast<uint64_t>(reduction) << 8 | static_cast<uint64_t>(root) << 12 |
         static_cast<uint64_t>(bytes) << kBytesShift;
}

CollectiveQueue::CollectiveQueue(const Board& board, Patience& patience)
    : Activity(board, patience),
      rank_(board.rank()),
      size_(board.size()),
      line_(board.line(rank_)),
      rows_(static_cast<size_t>(size_)),
      helped_(*this) {}

// ---- The queue

Awaited CollectiveQueue::advance() {
  while (!queue_.empty()) {
    Collective& first = *queue_.front();
    first.steps.advance();
    if (!first.steps.ended()) return first.steps.awaited();
    if (const std::exception_ptr error = first.steps.error()) {
      fail(error);
      return {};
    }
    first.end();
    queue_.pop_front();
    set_unfinished(queue_.size());
  }
  return {};
}

void CollectiveQueue::fail(const std::exception_ptr& error) {
  for (const auto& collective : queue_) collective->end(error);
  queue_.clear();
  set_unfinished(0);
}

CollectiveQueue::Operation CollectiveQueue::start(Steps steps, Kept kept) {
  auto collective = std::make_shared<Collective>();
  collective->steps = std::move(steps);
  collective->kept = std::move(kept);
  {
    const std::lock_guard lock(mutex());
    queue_.push_back(collective);
    set_unfinished(queue_.size());
    (void)advance();
  }
  if (!collective->ended.load(std::memory_order_relaxed)) tell_helper();
  return collective;
}

// ---- For the steps

Awaited CollectiveQueue::slot_free(int rank, uint32_t round) const {
  return {&board().line(rank).done, round + 1 - kNumSlots, rank};
}

void CollectiveQueue::note_free() {
  uint32_t least = board().line(0).done.value.load(std::memory_order_acquire);
  for (int rank = 1; rank < size_; ++rank) {
    const uint32_t done = board().line(rank).done.value.load(std::memory_order_acquire);
    if (static_cast<int32_t>(done - least) < 0) least = done;
  }
  free_until_ = least + kNumSlots;
}

uint32_t CollectiveQueue::post(const Call& call, uint32_t round, bool more) {
  line_.calls[round % kNumSlots].store(call.packed() | (more ? kMore : 0),
                                       std::memory_order_relaxed);
  return post_again();
}

uint32_t CollectiveQueue::post_again() {
  line_.posted.set(++posts_);
  return posts_;
}

Awaited CollectiveQueue::posted(int rank, uint32_t number) const {
  return {&board().line(rank).posted, number, rank};
}

bool CollectiveQueue::check_call(int rank, const Call& call) const {
  const uint64_t theirs =
      board().line(rank).calls[round_ % kNumSlots].load(std::memory_order_relaxed);
  if ((theirs & ~kMore) == call.packed()) return (theirs & kMore) != 0;
  throw CommError(concat("the calls of the ranks differ: rank ", rank_, " of the group called ",
                         text_of(call.packed()), ", rank ", rank, " called ", text_of(theirs),
                         "; set TESSERA_CHECK_COLLECTIVES=1 to compare all calls"));
}

void CollectiveQueue::finish_round() {
  line_.done.set(++round_);
}

void CollectiveQueue::reduce_slots(const ReduceCall& call, std::byte* output, const std::byte* own,
                                   size_t offset, size_t bytes) {
  if (bytes == 0) return;
  for (int rank = 0; rank < size_; ++rank) {
    rows_[static_cast<size_t>(rank)] = rank == rank_ ? own : slot(rank) + offset;
  }
  reduce_rows(call.number, call.reduction, output, rows_, bytes / size_of(call.number));
}

// ---- Collectives

CollectiveQueue::Operation CollectiveQueue::all_reduce(std::byte* data, const ReduceCall& call,
                                                       Kept kept) {
  const size_t bytes = call.count * size_of(call.number);
  const auto ranks = static_cast<size_t>(size_);
  const bool is_flat = bytes * ranks * ranks <= kFlatBytes;
  return start(is_flat ? all_reduce_flat(data, call) : all_reduce_in_parts(data, call),
               std::move(kept));
}

Steps CollectiveQueue::all_reduce_flat(std::byte* data, ReduceCall reduction) {
  const size_t bytes = reduction.count * size_of(reduction.number);
  const Call call{.kind = Kind::kAllReduce,
                  .bytes = bytes,
                  .number = reduction.number,
                  .reduction = reduction.reduction};
  if (!is_free(round_)) {
    for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
    note_free();
  }
  copy_bytes(own_slot(round_), data, bytes);
  const uint32_t number = post(call, round_);
  for (int distance = 1; distance < size_; ++distance) {
    co_await posted(neighbour(distance), number);
    check_call(neighbour(distance), call);
  }
  reduce_slots(reduction, data, data, 0, bytes);
  finish_round();
}

// Each chunk has a part for each rank, which reduces it and writes the result into its own slot.
Steps CollectiveQueue::all_reduce_in_parts(std::byte* data, ReduceCall reduction) {
  const size_t bytes = reduction.count * size_of(reduction.number);
  const Call call{.kind = Kind::kAllReduce,
                  .bytes = bytes,
                  .number = reduction.number,
                  .reduction = reduction.reduction};
  const size_t chunk = chunk_of(bytes);
  const size_t chunks = num_chunks(bytes, chunk);
  const auto part_of = [ranks = static_cast<size_t>(size_)](const Piece& piece, int rank) {
    return piece_of(piece.bytes, up_to_line((piece.bytes + ranks - 1) / ranks),
                    static_cast<size_t>(rank));
  };
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = round_ + static_cast<uint32_t>(written - i);
      if (!is_free(round)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round);
        note_free();
      }
      const Piece piece = piece_of(bytes, chunk, written);
      for (int distance = 1; distance < size_; ++distance) {
        const Piece part = part_of(piece, neighbour(distance));
        copy_bytes(own_slot(round) + part.begin, data + piece.begin + part.begin, part.bytes);
      }
      numbers[written % 2] = post(call, round);
    }
    for (int distance = 1; distance < size_; ++distance) {
      co_await posted(neighbour(distance), numbers[i % 2]);
      check_call(neighbour(distance), call);
    }
    const Piece piece = piece_of(bytes, chunk, i);
    const Piece own = part_of(piece, rank_);
    std::byte* const result = data + piece.begin + own.begin;
    reduce_slots(reduction, result, result, own.begin, own.bytes);
    copy_bytes(slot(rank_) + own.begin, result, own.bytes);
    const uint32_t number = post_again();
    for (int distance = 1; distance < size_; ++distance) {
      const int rank = neighbour(distance);
      co_await posted(rank, number);
      const Piece part = part_of(piece, rank);
      copy_bytes(data + piece.begin + part.begin, slot(rank) + part.begin, part.bytes,
                 bytes >= kPastCache);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::reduce(std::byte* data, const ReduceCall& call,
                                                   int root, Kept kept) {
  return start(reduce_steps(data, call, root), std::move(kept));
}

Steps CollectiveQueue::reduce_steps(std::byte* data, ReduceCall reduction, int root) {
  const size_t bytes = reduction.count * size_of(reduction.number);
  const Call call{.kind = Kind::kReduce,
                  .bytes = bytes,
                  .root = root,
                  .number = reduction.number,
                  .reduction = reduction.reduction};
  const size_t chunk = chunk_of(bytes);
  for (size_t i = 0; i < num_chunks(bytes, chunk); ++i) {
    const Piece piece = piece_of(bytes, chunk, i);
    if (rank_ == root) {
      const uint32_t number = skip_post();
      for (int distance = 1; distance < size_; ++distance) {
        co_await posted(neighbour(distance), number);
        check_call(neighbour(distance), call);
      }
      reduce_slots(reduction, data + piece.begin, data + piece.begin, 0, piece.bytes);
    } else {
      if (!is_free(round_)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
        note_free();
      }
      copy_bytes(own_slot(round_), data + piece.begin, piece.bytes);
      post(call, round_);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::reduce_scatter(std::byte* output,
                                                           const std::byte* input,
                                                           const ReduceCall& call, Kept kept) {
  return start(reduce_scatter_steps(output, input, call), std::move(kept));
}

Steps CollectiveQueue::reduce_scatter_steps(std::byte* output, const std::byte* input,
                                            ReduceCall reduction) {
  const size_t bytes = reduction.count * size_of(reduction.number);
  const Call call{.kind = Kind::kReduceScatter,
                  .bytes = bytes,
                  .number = reduction.number,
                  .reduction = reduction.reduction};
  const size_t region = region_of(bytes, size_);
  const size_t chunks = num_chunks(bytes, region);
  const auto input_of = [&](int rank) { return input + static_cast<size_t>(rank) * bytes; };
  const auto region_at = [&](int rank) { return static_cast<size_t>(rank) * region; };
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = round_ + static_cast<uint32_t>(written - i);
      if (!is_free(round)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round);
        note_free();
      }
      const Piece piece = piece_of(bytes, region, written);
      for (int distance = 1; distance < size_; ++distance) {
        const int rank = neighbour(distance);
        copy_bytes(own_slot(round) + region_at(rank), input_of(rank) + piece.begin, piece.bytes);
      }
      numbers[written % 2] = post(call, round);
    }
    for (int distance = 1; distance < size_; ++distance) {
      co_await posted(neighbour(distance), numbers[i % 2]);
      check_call(neighbour(distance), call);
    }
    const Piece piece = piece_of(bytes, region, i);
    reduce_slots(reduction, output + piece.begin, input_of(rank_) + piece.begin, region_at(rank_),
                 piece.bytes);
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::all_gather(std::byte* output, const std::byte* input,
                                                       size_t bytes, Kept kept) {
  return start(all_gather_steps(output, input, bytes), std::move(kept));
}

Steps CollectiveQueue::all_gather_steps(std::byte* output, const std::byte* input, size_t bytes) {
  const Call call{.kind = Kind::kAllGather, .bytes = bytes};
  const size_t chunk = chunk_of(bytes);
  const size_t chunks = num_chunks(bytes, chunk);
  const bool past_cache = bytes * static_cast<size_t>(size_) >= kPastCache;
  const auto output_of = [&](int rank) { return output + static_cast<size_t>(rank) * bytes; };
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = round_ + static_cast<uint32_t>(written - i);
      if (!is_free(round)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round);
        note_free();
      }
      const Piece piece = piece_of(bytes, chunk, written);
      copy_bytes(own_slot(round), input + piece.begin, piece.bytes);
      numbers[written % 2] = post(call, round);
      copy_bytes(output_of(rank_) + piece.begin, input + piece.begin, piece.bytes, past_cache);
    }
    const Piece piece = piece_of(bytes, chunk, i);
    for (int distance = 1; distance < size_; ++distance) {
      const int rank = neighbour(distance);
      co_await posted(rank, numbers[i % 2]);
      check_call(rank, call);
      copy_bytes(output_of(rank) + piece.begin, slot(rank), piece.bytes, past_cache);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::broadcast(std::byte* data, size_t bytes, int root,
                                                      Kept kept) {
  return start(broadcast_steps(data, bytes, root), std::move(kept));
}

Steps CollectiveQueue::broadcast_steps(std::byte* data, size_t bytes, int root) {
  const Call call{.kind = Kind::kBroadcast, .bytes = bytes, .root = root};
  const size_t chunk = chunk_of(bytes);
  for (size_t i = 0; i < num_chunks(bytes, chunk); ++i) {
    const Piece piece = piece_of(bytes, chunk, i);
    if (rank_ == root) {
      if (!is_free(round_)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
        note_free();
      }
      copy_bytes(own_slot(round_), data + piece.begin, piece.bytes);
      post(call, round_);
    } else {
      co_await posted(root, skip_post());
      check_call(root, call);
      copy_bytes(data + piece.begin, slot(root), piece.bytes, bytes >= kPastCache);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::gather(std::vector<std::byte*> outputs,
                                                   const std::byte* input, size_t bytes, int root,
                                                   Kept kept) {
  return start(gather_steps(std::move(outputs), input, bytes, root), std::move(kept));
}

Steps CollectiveQueue::gather_steps(std::vector<std::byte*> outputs, const std::byte* input,
                                    size_t bytes, int root) {
  const Call call{.kind = Kind::kGather, .bytes = bytes, .root = root};
  const size_t chunk = chunk_of(bytes);
  if (rank_ == root) copy_bytes(outputs[static_cast<size_t>(root)], input, bytes);
  for (size_t i = 0; i < num_chunks(bytes, chunk); ++i) {
    const Piece piece = piece_of(bytes, chunk, i);
    if (rank_ == root) {
      const uint32_t number = skip_post();
      for (int distance = 1; distance < size_; ++distance) {
        const int rank = neighbour(distance);
        co_await posted(rank, number);
        check_call(rank, call);
        copy_bytes(outputs[static_cast<size_t>(rank)] + piece.begin, slot(rank), piece.bytes);
      }
    } else {
      if (!is_free(round_)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
        note_free();
      }
      copy_bytes(own_slot(round_), input + piece.begin, piece.bytes);
      post(call, round_);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::scatter(std::byte* output,
                                                    std::vector<const std::byte*> inputs,
                                                    size_t bytes, int root, Kept kept) {
  return start(scatter_steps(output, std::move(inputs), bytes, root), std::move(kept));
}

Steps CollectiveQueue::scatter_steps(std::byte* output, std::vector<const std::byte*> inputs,
                                     size_t bytes, int root) {
  const Call call{.kind = Kind::kScatter, .bytes = bytes, .root = root};
  const size_t region = region_of(bytes, size_);
  if (rank_ == root) copy_bytes(output, inputs[static_cast<size_t>(root)], bytes);
  for (size_t i = 0; i < num_chunks(bytes, region); ++i) {
    const Piece piece = piece_of(bytes, region, i);
    if (rank_ == root) {
      if (!is_free(round_)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
        note_free();
      }
      for (int distance = 1; distance < size_; ++distance) {
        const auto rank = static_cast<size_t>(neighbour(distance));
        copy_bytes(own_slot(round_) + rank * region, inputs[rank] + piece.begin, piece.bytes);
      }
      post(call, round_);
    } else {
      co_await posted(root, skip_post());
      check_call(root, call);
      copy_bytes(output + piece.begin, slot(root) + static_cast<size_t>(rank_) * region,
                 piece.bytes);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::all_to_all(std::byte* output, const std::byte* input,
                                                       std::vector<size_t> receive,
                                                       std::vector<size_t> send, Kept kept) {
  return start(all_to_all_steps(output, input, std::move(receive), std::move(send)),
               std::move(kept));
}

// No rank knows what others exchange: each says in every round whether it has more to send.
Steps CollectiveQueue::all_to_all_steps(std::byte* output, const std::byte* input,
                                        std::vector<size_t> receive, std::vector<size_t> send) {
  const Call call{.kind = Kind::kAllToAll};
  const size_t region = down_to_line(kSlotBytes / static_cast<size_t>(size_));
  const std::vector<size_t> send_begins = begins_of(send);
  const std::vector<size_t> receive_begins = begins_of(receive);
  const bool past_cache = std::reduce(receive.begin(), receive.end()) >= kPastCache;
  const auto own = static_cast<size_t>(rank_);
  copy_bytes(output + receive_begins[own], input + send_begins[own], send[own], past_cache);
  size_t most = 0;
  for (size_t rank = 0; rank < send.size(); ++rank) {
    if (rank != own) most = std::max(most, send[rank]);
  }
  const size_t chunks = std::max<size_t>(1, num_chunks(most, region));  // Of this rank.
  const uint32_t first = posts_;
  bool more = true;
  for (size_t i = 0, written = 0; more; ++i) {
    for (; written <= i || written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = round_ + static_cast<uint32_t>(written - i);
      if (!is_free(round)) {
        for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round);
        note_free();
      }
      for (int distance = 1; distance < size_; ++distance) {
        const auto rank = static_cast<size_t>(neighbour(distance));
        const Piece piece = piece_of(send[rank], region, written);
        copy_bytes(own_slot(round) + rank * region, input + send_begins[rank] + piece.begin,
                   piece.bytes);
      }
      post(call, round, written + 1 < chunks);
    }
    more = i + 1 < chunks;
    for (int distance = 1; distance < size_; ++distance) {
      const int rank = neighbour(distance);
      co_await posted(rank, first + static_cast<uint32_t>(i) + 1);
      more |= check_call(rank, call);
      const auto from = static_cast<size_t>(rank);
      const Piece piece = piece_of(receive[from], region, i);
      copy_bytes(output + receive_begins[from] + piece.begin, slot(rank) + own * region,
                 piece.bytes, past_cache);
    }
    finish_round();
  }
}

CollectiveQueue::Operation CollectiveQueue::barrier() {
  return start(barrier_steps(), nullptr);
}

Steps CollectiveQueue::barrier_steps() {
  const Call call{.kind = Kind::kBarrier};
  if (!is_free(round_)) {
    for (int rank = 0; rank < size_; ++rank) co_await slot_free(rank, round_);
    note_free();
  }
  const uint32_t number = post(call, round_);
  for (int distance = 1; distance < size_; ++distance) {
    co_await posted(neighbour(distance), number);
    check_call(neighbour(distance), call);
  }
  finish_round();
}

}  // namespace tessera::comm::detail::shm
