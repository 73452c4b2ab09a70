#include "tessera/comm/shm/reductions.h"

#include <array>

#include "tessera/comm/shm/chunks.h"

namespace tessera::comm::detail::shm {
namespace {

constexpr size_t kFlatBytes = size_t{512} << 10;  // Copied and summed by all ranks together.

Call call_for(Kind kind, const ReduceCall& reduction, int root = 0) {
  return {.kind = kind,
          .bytes = reduction.bytes(),
          .root = root,
          .number = reduction.number,
          .reduction = reduction.reduction};
}

// Every rank reduces everything.
Steps all_reduce_flat(Rounds& rounds, std::byte* data, ReduceCall reduction) {
  const Call call = call_for(Kind::kAllReduce, reduction);
  co_await rounds.slot_free(rounds.current());
  rounds.write(rounds.current(), 0, data, call.bytes);
  co_await rounds.all_posted(rounds.post(call, rounds.current()));
  rounds.check_calls(call);
  rounds.reduce(reduction, data, data, 0, {0, call.bytes});
  rounds.finish();
}

// Each chunk has a part for each rank, which reduces it and writes the result into its own slot. An
// offered part of others is read before its owner posts the result, and overwritten after that.
Steps all_reduce_in_parts(Rounds& rounds, std::byte* data, ReduceCall reduction) {
  const Call call = call_for(Kind::kAllReduce, reduction);
  const size_t chunk = chunk_of(call.bytes);
  const size_t chunks = num_chunks(call.bytes, chunk);
  const auto part_of = [ranks = static_cast<size_t>(rounds.size())](const Piece& piece, int rank) {
    return piece_of(piece.bytes, up_to_line((piece.bytes + ranks - 1) / ranks),
                    static_cast<size_t>(rank));
  };
  const bool past_cache = call.bytes >= kPastCache;
  if (past_cache) rounds.offer(data, call.bytes);  // Smaller ones are still in this core's cache.
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = rounds.current() + static_cast<uint32_t>(written - i);
      co_await rounds.slot_free(round);
      const Piece piece = piece_of(call.bytes, chunk, written);
      for (int distance = 1; distance < rounds.size(); ++distance) {
        const Piece part = part_of(piece, rounds.neighbour(distance));
        rounds.write(round, part.begin, data + piece.begin + part.begin, part.bytes);
      }
      numbers[written % 2] = rounds.post(call, round);
    }
    co_await rounds.all_posted(numbers[i % 2]);
    rounds.check_calls(call);
    const Piece piece = piece_of(call.bytes, chunk, i);
    const Piece own = part_of(piece, rounds.rank());
    std::byte* const result = data + piece.begin + own.begin;
    rounds.reduce(reduction, result, result, own.begin, {piece.begin + own.begin, own.bytes});
    copy_for_others(rounds.own_slot(rounds.current()) + own.begin, result, own.bytes);
    const uint32_t number = rounds.post_again();
    for (int distance = 1; distance < rounds.size(); ++distance) {
      const int rank = rounds.neighbour(distance);
      co_await rounds.posted(rank, number);
      const Piece part = part_of(piece, rank);
      copy_bytes(data + piece.begin + part.begin, rounds.slot(rank) + part.begin, part.bytes,
                 past_cache);
    }
    rounds.finish();
  }
  rounds.withdraw();
}

}  // namespace

Steps all_reduce(Rounds& rounds, std::byte* data, ReduceCall reduction) {
  const auto ranks = static_cast<size_t>(rounds.size());
  const bool is_flat = reduction.bytes() * ranks * ranks <= kFlatBytes;
  return (is_flat ? all_reduce_flat : all_reduce_in_parts)(rounds, data, reduction);
}

Steps reduce(Rounds& rounds, std::byte* data, ReduceCall reduction, int root) {
  const Call call = call_for(Kind::kReduce, reduction, root);
  const size_t chunk = chunk_of(call.bytes);
  if (rounds.rank() != root) rounds.offer(data, call.bytes);
  for (size_t i = 0; i < num_chunks(call.bytes, chunk); ++i) {
    const Piece piece = piece_of(call.bytes, chunk, i);
    if (rounds.rank() == root) {
      co_await rounds.all_posted(rounds.skip_post());
      rounds.check_calls(call);
      rounds.reduce(reduction, data + piece.begin, data + piece.begin, 0, piece);
    } else {
      co_await rounds.slot_free(rounds.current());
      rounds.write(rounds.current(), 0, data + piece.begin, piece.bytes);
      rounds.post(call, rounds.current());
    }
    rounds.finish();
  }
  co_await rounds.given_back();
}

Steps reduce_scatter(Rounds& rounds, std::byte* output, const std::byte* input,
                     ReduceCall reduction) {
  const Call call = call_for(Kind::kReduceScatter, reduction);
  const size_t region = region_of(call.bytes, rounds.size());
  const size_t chunks = num_chunks(call.bytes, region);
  const auto share_at = [&](int rank) { return static_cast<size_t>(rank) * call.bytes; };
  const auto region_at = [&](int rank) { return static_cast<size_t>(rank) * region; };
  rounds.offer(input, share_at(rounds.size()));
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = rounds.current() + static_cast<uint32_t>(written - i);
      co_await rounds.slot_free(round);
      const Piece piece = piece_of(call.bytes, region, written);
      for (int distance = 1; distance < rounds.size(); ++distance) {
        const int rank = rounds.neighbour(distance);
        rounds.write(round, region_at(rank), input + share_at(rank) + piece.begin, piece.bytes);
      }
      numbers[written % 2] = rounds.post(call, round);
    }
    co_await rounds.all_posted(numbers[i % 2]);
    rounds.check_calls(call);
    const Piece piece = piece_of(call.bytes, region, i);
    const size_t begin = share_at(rounds.rank()) + piece.begin;
    rounds.reduce(reduction, output + piece.begin, input + begin, region_at(rounds.rank()),
                  {begin, piece.bytes});
    rounds.finish();
  }
  co_await rounds.given_back();
}

}  // namespace tessera::comm::detail::shm
