#include "tessera/launch/heartbeat_pipe.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kBeat = "beat ";
constexpr size_t kLongestPlace = 200;  // A shorter line than PIPE_BUF is written whole.

}  // namespace

std::optional<std::chrono::milliseconds> silence_setting(const Environment& environment) {
  const auto text = environment("TESSERA_SILENCE_SECONDS");
  if (!text || text->empty()) return std::nullopt;
  const auto seconds = to_integer(*text);
  TSR_CHECK(seconds && *seconds > 0, "TESSERA_SILENCE_SECONDS='", *text,
            "' must be an integer ≥ 1; set it to the seconds without a heartbeat after which a "
            "rank is lost");
  return std::chrono::seconds(*seconds);
}

std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds silence) {
  return std::min<std::chrono::milliseconds>(std::chrono::seconds(1), silence / 5);
}

// A store answers a few thousand requests per second.
std::chrono::milliseconds store_heartbeat_interval(int64_t world_size, bool has_launcher) {
  return std::chrono::milliseconds(500 + (has_launcher ? 3 : 1) * world_size);
}

std::string heartbeat_line(std::string_view place) {
  std::string line = concat(kBeat, place.substr(0, kLongestPlace));
  std::ranges::replace(line, '\n', ' ');
  return line + "\n";
}

void HeartbeatReader::add(std::string_view bytes, Clock::time_point now) {
  unread_ += bytes;
  size_t begin = 0;
  for (size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(unread_).substr(begin, end - begin);
    if (!line.starts_with(kBeat)) {
      healthy_ = true;
      continue;
    }
    last_ = now;
    place_ = line.substr(kBeat.size());
  }
  unread_.erase(0, begin);
  const bool may_be_beat = kBeat.starts_with(unread_) || unread_.starts_with(kBeat);
  healthy_ = healthy_ || !may_be_beat;
  if (!may_be_beat || unread_.size() > kBeat.size() + kLongestPlace) unread_.clear();
}

}  // namespace tessera
