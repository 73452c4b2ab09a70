#include "tessera/comm/shm/transfers.h"

#include <array>
#include <cstring>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/shm/chunks.h"

namespace tessera::comm::detail::shm {
namespace {

std::vector<size_t> begins_of(const std::vector<size_t>& sizes) {
  std::vector<size_t> begins(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), size_t{0});
  return begins;
}

/// The begin of each rank's region in a slot of an all-to-all.
struct RegionHead {
  size_t bytes = 0;  // That the rank gets, in all rounds.
  size_t begin = 0;  // Of these in the input, if that is offered.
};

RegionHead head_at(const std::byte* region) {
  RegionHead head;
  std::memcpy(&head, region, sizeof(head));
  return head;
}

void check_bytes(int from, size_t sent, size_t wanted) {
  if (sent == wanted) return;
  throw CommError(concat("rank ", from, " of the group sends ", sent,
                         " bytes to this rank, which expects ", wanted,
                         "; the sizes of an all-to-all must agree"));
}

// The most bytes that a rank sends to another.
size_t most_sent(const std::vector<size_t>& send, size_t own) {
  size_t most = 0;
  for (size_t rank = 0; rank < send.size(); ++rank) {
    if (rank != own) most = std::max(most, send[rank]);
  }
  return most;
}

}  // namespace

Steps all_gather(Rounds& rounds, std::byte* output, const std::byte* input, size_t bytes) {
  const Call call{.kind = Kind::kAllGather, .bytes = bytes};
  const size_t chunk = chunk_of(bytes);
  const size_t chunks = num_chunks(bytes, chunk);
  const bool past_cache = bytes * static_cast<size_t>(rounds.size()) >= kPastCache;
  const auto output_of = [&](int rank) { return output + static_cast<size_t>(rank) * bytes; };
  rounds.offer(input, bytes);
  std::array<uint32_t, 2> numbers = {};
  for (size_t i = 0, written = 0; i < chunks; ++i) {
    for (; written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = rounds.current() + static_cast<uint32_t>(written - i);
      co_await rounds.slot_free(round);
      const Piece piece = piece_of(bytes, chunk, written);
      rounds.write(round, 0, input + piece.begin, piece.bytes);
      numbers[written % 2] = rounds.post(call, round);
      copy_bytes(output_of(rounds.rank()) + piece.begin, input + piece.begin, piece.bytes,
                 past_cache);
    }
    const Piece piece = piece_of(bytes, chunk, i);
    for (int distance = 1; distance < rounds.size(); ++distance) {
      const int rank = rounds.neighbour(distance);
      co_await rounds.posted(rank, numbers[i % 2]);
      rounds.check_call(rank, call);
      copy_bytes(output_of(rank) + piece.begin, rounds.read(rank, 0, piece.begin), piece.bytes,
                 past_cache);
    }
    rounds.finish();
  }
  co_await rounds.given_back();
}

Steps broadcast(Rounds& rounds, std::byte* data, size_t bytes, int root) {
  const Call call{.kind = Kind::kBroadcast, .bytes = bytes, .root = root};
  const size_t chunk = chunk_of(bytes);
  if (rounds.rank() == root) rounds.offer(data, bytes);
  for (size_t i = 0; i < num_chunks(bytes, chunk); ++i) {
    const Piece piece = piece_of(bytes, chunk, i);
    if (rounds.rank() == root) {
      co_await rounds.slot_free(rounds.current());
      rounds.write(rounds.current(), 0, data + piece.begin, piece.bytes);
      rounds.post(call, rounds.current());
    } else {
      co_await rounds.posted(root, rounds.skip_post());
      rounds.check_call(root, call);
      copy_bytes(data + piece.begin, rounds.read(root, 0, piece.begin), piece.bytes,
                 bytes >= kPastCache);
    }
    rounds.finish();
  }
  co_await rounds.given_back();
}

Steps gather(Rounds& rounds, std::vector<std::byte*> outputs, const std::byte* input, size_t bytes,
             int root) {
  const Call call{.kind = Kind::kGather, .bytes = bytes, .root = root};
  const size_t chunk = chunk_of(bytes);
  if (rounds.rank() == root) {
    copy_bytes(outputs[static_cast<size_t>(root)], input, bytes);
  } else {
    rounds.offer(input, bytes);
  }
  for (size_t i = 0; i < num_chunks(bytes, chunk); ++i) {
    const Piece piece = piece_of(bytes, chunk, i);
    if (rounds.rank() == root) {
      const uint32_t number = rounds.skip_post();
      for (int distance = 1; distance < rounds.size(); ++distance) {
        const int rank = rounds.neighbour(distance);
        co_await rounds.posted(rank, number);
        rounds.check_call(rank, call);
        copy_bytes(outputs[static_cast<size_t>(rank)] + piece.begin,
                   rounds.read(rank, 0, piece.begin), piece.bytes);
      }
    } else {
      co_await rounds.slot_free(rounds.current());
      rounds.write(rounds.current(), 0, input + piece.begin, piece.bytes);
      rounds.post(call, rounds.current());
    }
    rounds.finish();
  }
  co_await rounds.given_back();
}

Steps scatter(Rounds& rounds, std::byte* output, std::vector<const std::byte*> inputs, size_t bytes,
              int root) {
  const Call call{.kind = Kind::kScatter, .bytes = bytes, .root = root};
  const size_t region = region_of(bytes, rounds.size());
  if (rounds.rank() == root) copy_bytes(output, inputs[static_cast<size_t>(root)], bytes);
  for (size_t i = 0; i < num_chunks(bytes, region); ++i) {
    const Piece piece = piece_of(bytes, region, i);
    if (rounds.rank() == root) {
      co_await rounds.slot_free(rounds.current());
      for (int distance = 1; distance < rounds.size(); ++distance) {
        const auto rank = static_cast<size_t>(rounds.neighbour(distance));
        rounds.write(rounds.current(), rank * region, inputs[rank] + piece.begin, piece.bytes);
      }
      rounds.post(call, rounds.current());
    } else {
      co_await rounds.posted(root, rounds.skip_post());
      rounds.check_call(root, call);
      copy_bytes(output + piece.begin,
                 rounds.slot(root) + static_cast<size_t>(rounds.rank()) * region, piece.bytes);
    }
    rounds.finish();
  }
}

// No rank knows what others exchange: each says in every round whether it has more to send. A rank
// that offers its input needs one round.
Steps all_to_all(Rounds& rounds, std::byte* output, const std::byte* input,
                 std::vector<size_t> receive, std::vector<size_t> send) {
  const Call call{.kind = Kind::kAllToAll};
  const size_t region = down_to_line(kSlotBytes / static_cast<size_t>(rounds.size()));
  const size_t room = region - kLine;  // Behind the head.
  const std::vector<size_t> send_begins = begins_of(send);
  const std::vector<size_t> receive_begins = begins_of(receive);
  const bool past_cache = std::reduce(receive.begin(), receive.end()) >= kPastCache;
  const auto own = static_cast<size_t>(rounds.rank());
  const bool offers = rounds.offer(input, std::reduce(send.begin(), send.end()));
  const size_t chunks = offers ? 1 : std::max<size_t>(1, num_chunks(most_sent(send, own), room));
  const uint32_t first = rounds.num_posts() + 1;
  bool more = true;
  for (size_t i = 0, written = 0; more; ++i) {
    for (; written <= i || written < std::min(i + 2, chunks); ++written) {
      const uint32_t round = rounds.current() + static_cast<uint32_t>(written - i);
      co_await rounds.slot_free(round);
      for (int distance = 1; distance < rounds.size(); ++distance) {
        const auto rank = static_cast<size_t>(rounds.neighbour(distance));
        const RegionHead head{.bytes = send[rank], .begin = send_begins[rank]};
        std::memcpy(rounds.own_slot(round) + rank * region, &head, sizeof(head));
        const Piece piece = piece_of(send[rank], room, written);
        rounds.write(round, rank * region + kLine, input + send_begins[rank] + piece.begin,
                     piece.bytes);
      }
      rounds.post(call, round, written + 1 < chunks);
    }
    if (i == 0) {
      copy_bytes(output + receive_begins[own], input + send_begins[own], send[own], past_cache);
    }
    more = i + 1 < chunks;
    for (int distance = 1; distance < rounds.size(); ++distance) {
      const int rank = rounds.neighbour(distance);
      co_await rounds.posted(rank, first + static_cast<uint32_t>(i));
      more |= rounds.check_call(rank, call);
      const auto from = static_cast<size_t>(rank);
      const std::byte* const region_here = rounds.slot(rank) + own * region;
      const RegionHead head = head_at(region_here);
      if (i == 0) check_bytes(rank, head.bytes, receive[from]);
      const std::byte* const offered = rounds.offered(rank);
      const Piece piece = piece_of(receive[from], offered == nullptr ? room : receive[from], i);
      const std::byte* const source =
          offered == nullptr ? region_here + kLine : offered + head.begin;
      copy_bytes(output + receive_begins[from] + piece.begin, source, piece.bytes, past_cache);
    }
    rounds.finish();
  }
  co_await rounds.given_back();
}

Steps barrier(Rounds& rounds) {
  const Call call{.kind = Kind::kBarrier};
  co_await rounds.slot_free(rounds.current());
  co_await rounds.all_posted(rounds.post(call, rounds.current()));
  rounds.check_calls(call);
  rounds.finish();
}

}  // namespace tessera::comm::detail::shm
