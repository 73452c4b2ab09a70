#include "tessera/comm/shm/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

constexpr size_t kMostRanks = 256;  // Of a host.

// Processes with the same text see each other in /proc. Containers with networks of their own are
// hosts of their own; empty if this system says nothing.
std::string host_key() {
  std::string key;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> key;
  for (const char* const space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::error_code error;
    key += "/" + std::filesystem::read_symlink(space, error).string();
    if (error) return "";
  }
  return key;
}

/// What a rank says about itself.
struct Introduction {
  std::string host;  // "-" if it does not want shared memory.
  pid_t pid = 0;
  std::string arena = "";  // Its place; empty if it has none.
};

Introduction parse_introduction(const std::string& text) {
  Introduction introduction;
  std::istringstream in(text);
  in >> introduction.host >> introduction.pid >> std::ws;
  std::getline(in, introduction.arena);
  return introduction;
}

std::string own_introduction(const Candidate& candidate) {
  const std::string key = host_key();
  const bool can = candidate.wanted && !key.empty();
  return concat(can ? concat(key, "/", candidate.node) : "-", " ", getpid(), " ",
                candidate.arena ? to_text(candidate.arena->segment().place()) : "");
}

/// The texts of all ranks, by rank.
class Exchange {
 public:
  Exchange(c10d::Store& store, int rank, int size) : store_(store), rank_(rank), size_(size) {}

  std::vector<std::string> all(const std::string& topic, const std::string& mine) {
    store_.set(concat("shm/", topic, "/", rank_), mine);
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(concat("shm/", topic, "/", rank));
    std::vector<std::string> texts;
    for (const auto& bytes : store_.multiGet(keys)) texts.emplace_back(bytes.begin(), bytes.end());
    return texts;
  }

  /// From the first rank of a host to its others.
  void tell_place(const std::string& place) { store_.set(place_key(rank_), place); }
  std::string place_of(int first) { return store_.get_to_str(place_key(first)); }

 private:
  static std::string place_key(int first) { return concat("shm/segment/", first); }

  c10d::Store& store_;
  const int rank_;
  const int size_;
};

/// The ranks of a host.
struct Host {
  std::vector<int> ranks;
  std::vector<pid_t> pids;
  std::vector<std::string> arenas;  // Their places.
};

/// The hosts in the order of their first ranks, and the host of each rank.
struct Hosts {
  std::vector<Host> all;
  std::vector<int> of_rank;
  bool willing = true;
};

Hosts find_hosts(const std::vector<std::string>& introductions) {
  Hosts hosts;
  std::map<std::string, int> numbers;
  for (size_t rank = 0; rank < introductions.size(); ++rank) {
    const Introduction one = parse_introduction(introductions[rank]);
    const auto [at, is_new] = numbers.emplace(one.host, static_cast<int>(hosts.all.size()));
    if (is_new) hosts.all.emplace_back();
    Host& host = hosts.all[static_cast<size_t>(at->second)];
    host.ranks.push_back(static_cast<int>(rank));
    host.pids.push_back(one.pid);
    host.arenas.push_back(one.arena);
    hosts.of_rank.push_back(at->second);
    hosts.willing &= one.host != "-";
  }
  const size_t per_host = hosts.all.front().ranks.size();
  hosts.willing &= per_host > 1 && per_host <= kMostRanks &&
                   std::ranges::all_of(
                       hosts.all, [&](const Host& host) { return host.ranks.size() == per_host; });
  return hosts;
}

/// A rank's attempt to take part; `failure` is empty if it succeeded.
struct Attempt {
  std::unique_ptr<Board> board = {};
  std::string failure = "";
};

constexpr const char* kNoSegment = "-";

Segment create_segment(Exchange& exchange, const Host& host) {
  try {
    Segment segment = Segment::create(Board::bytes_for(static_cast<int>(host.ranks.size())));
    exchange.tell_place(to_text(segment.place()));
    return segment;
  } catch (const std::exception&) {
    exchange.tell_place(kNoSegment);
    throw;
  }
}

Segment open_segment(Exchange& exchange, const Host& host) {
  const std::string place = exchange.place_of(host.ranks.front());
  if (place == kNoSegment) throw DataError("the first rank of its host has no segment");
  return Segment::open(parse_place(place));
}

Arenas open_all(const Host& host, int local, const Candidate& candidate, OpenArenas& open_arenas) {
  Arenas arenas{.own = candidate.arena};
  for (size_t rank = 0; rank < host.arenas.size(); ++rank) {
    const std::string& place = host.arenas[rank];
    const bool is_other = static_cast<int>(rank) != local && !place.empty();
    arenas.of_rank.push_back(is_other ? open_arenas.open(parse_place(place)) : nullptr);
  }
  return arenas;
}

Attempt attempt(Exchange& exchange, const Host& host, const Candidate& candidate,
                OpenArenas& open_arenas) {
  Attempt mine;
  const auto local =
      static_cast<int>(std::ranges::find(host.ranks, candidate.rank) - host.ranks.begin());
  try {
    Segment segment = local == 0 ? create_segment(exchange, host) : open_segment(exchange, host);
    mine.board = std::make_unique<Board>(std::make_shared<Segment>(std::move(segment)), local,
                                         host.pids, open_all(host, local, candidate, open_arenas));
    if (local == 0) mine.board->commit_counters();
    mine.board->commit_slots();
  } catch (const std::exception& error) {  // Any: the other ranks wait for an answer.
    mine.failure = error.what();
  }
  return mine;
}

}  // namespace

std::variant<Meeting, Refusal> meet(c10d::Store& store, const Candidate& candidate,
                                    OpenArenas& open_arenas) {
  Exchange exchange(store, candidate.rank, candidate.size);
  Hosts hosts = find_hosts(exchange.all("member", own_introduction(candidate)));
  if (!hosts.willing) return Refusal{};
  const auto here = static_cast<size_t>(hosts.of_rank[static_cast<size_t>(candidate.rank)]);
  Attempt mine = attempt(exchange, hosts.all[here], candidate, open_arenas);
  const auto failures = exchange.all("joined", mine.failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    return Refusal{concat("rank ", rank, " of the group: ", failures[rank])};
  }
  return Meeting{.board = std::move(mine.board), .hosts = std::move(hosts.of_rank)};
}

}  // namespace tessera::comm::detail::shm
