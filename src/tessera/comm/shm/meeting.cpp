#include "tessera/comm/shm/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

constexpr int kMostRanks = 256;

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
};

Introduction parse_introduction(const std::string& text) {
  Introduction introduction;
  std::istringstream(text) >> introduction.host >> introduction.pid;
  return introduction;
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

  /// From rank 0 to all.
  std::string from_first(const std::string& topic, const std::string& mine) {
    const std::string key = concat("shm/", topic);
    if (rank_ == 0) store_.set(key, mine);
    return rank_ == 0 ? mine : store_.get_to_str(key);
  }

 private:
  c10d::Store& store_;
  const int rank_;
  const int size_;
};

/// A rank's attempt to take part; `failure` is empty if it succeeded.
struct Attempt {
  std::unique_ptr<Board> board = {};
  std::string failure = "";
};

std::unique_ptr<Board> open_board(Segment segment, int rank, const std::vector<pid_t>& pids) {
  auto board = std::make_unique<Board>(std::move(segment), rank, pids);
  if (rank == 0) board->commit_counters();
  board->commit_slots();
  return board;
}

// "-" if rank 0 has no segment.
Attempt attempt(Exchange& exchange, int rank, const std::vector<pid_t>& pids) {
  Attempt mine;
  std::string place = "-";
  try {
    if (rank == 0) {
      Segment segment = Segment::create(Board::bytes_for(static_cast<int>(pids.size())));
      place = to_text(segment.place());
      mine.board = open_board(std::move(segment), rank, pids);
    }
  } catch (const DataError& error) {
    mine.failure = error.what();
    place = "-";
  }
  place = exchange.from_first("segment", place);
  if (rank == 0) return mine;
  if (place == "-") return {nullptr, "rank 0 of the group has no segment"};
  try {
    mine.board = open_board(Segment::open(parse_place(place)), rank, pids);
  } catch (const DataError& error) {
    mine.failure = error.what();
  }
  return mine;
}

}  // namespace

std::variant<std::unique_ptr<Board>, Refusal> meet(c10d::Store& store, int rank, int size,
                                                   bool wanted) {
  Exchange exchange(store, rank, size);
  const std::string host = wanted && size <= kMostRanks ? host_key() : "";
  const auto texts = exchange.all("member", concat(host.empty() ? "-" : host, " ", getpid()));
  std::vector<pid_t> pids;
  bool together = true;
  for (const std::string& text : texts) {
    const Introduction introduction = parse_introduction(text);
    pids.push_back(introduction.pid);
    together &= introduction.host != "-" && introduction.host == host;
  }
  const auto same = [&](const std::string& text) {
    return parse_introduction(text).host == parse_introduction(texts[0]).host;
  };
  if (!together || !std::ranges::all_of(texts, same)) return Refusal{};
  Attempt mine = attempt(exchange, rank, pids);
  const auto failures = exchange.all("joined", mine.failure);
  for (size_t other = 0; other < failures.size(); ++other) {
    if (failures[other].empty()) continue;
    return Refusal{concat("rank ", other, " of the group: ", failures[other])};
  }
  return std::move(mine.board);
}

}  // namespace tessera::comm::detail::shm
