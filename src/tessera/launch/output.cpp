#include "tessera/launch/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_of_backtrace(std::string_view line) {
  return line.starts_with("frame #") || line.starts_with("Exception raised from ");
}

// Without escape sequences (ESC [ … letter) and control characters other than tab.
std::string plain(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.substr(i).starts_with("\x1b[")) {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
    } else if (static_cast<unsigned char>(line[i]) >= 0x20 || line[i] == '\t') {
      text += line[i];
    }
  }
  return text;
}

// At most `width` bytes, without splitting a character.
std::string cut(std::string text, size_t width) {
  if (text.size() <= width) return text;
  size_t end = width;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

std::string LinePrefixer::add(std::string_view bytes) {
  std::string lines;
  const auto end_line = [&] {
    lines += concat(prefix_, begun_, "\n");
    begun_.clear();
  };
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);  // Of "\r\n".
    after_return_ = false;
    const size_t room = kLongestLine - begun_.size();
    const size_t end = std::min({bytes.find_first_of("\r\n"), bytes.size(), room});
    begun_ += bytes.substr(0, end);
    bytes.remove_prefix(end);
    if (bytes.empty()) break;
    if (bytes.front() == '\r' || bytes.front() == '\n') {
      after_return_ = bytes.front() == '\r';
      bytes.remove_prefix(1);
    }
    end_line();
  }
  if (begun_.size() >= kLongestLine) end_line();
  return lines;
}

std::string LinePrefixer::finish() {
  if (begun_.empty()) return "";
  std::string line = concat(prefix_, begun_, "\n");
  begun_.clear();
  return line;
}

void Tail::add(std::string_view bytes) {
  text_ += bytes;
  if (text_.size() > 2 * kBytes) text_.erase(0, text_.size() - kBytes);
}

std::vector<std::string> last_lines(std::string_view text, size_t count, size_t width) {
  std::string ends(text);
  std::ranges::replace(ends, '\r', '\n');
  std::vector<std::string> lines;
  for (const std::string_view line : split(ends, '\n')) {
    std::string shown = cut(plain(line), width);
    if (is_of_backtrace(shown)) continue;
    if (shown.find_first_not_of(" \t") != std::string::npos) lines.push_back(std::move(shown));
  }
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<int64_t>(count));
  return lines;
}

std::string tail_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size <= 0) return "";
  const std::streamoff length = std::min<std::streamoff>(size, Tail::kBytes);
  std::string text(static_cast<size_t>(length), '\0');
  file.seekg(size - length);
  file.read(text.data(), length);
  return file ? text : "";
}

Sink::~Sink() {
  loop_.unwatch(descriptor_);
}

void Sink::write(std::string_view text) {
  if (broken_ || text.empty()) return;
  waiting_ += text;
  pump();
}

void Sink::flush(Clock::time_point deadline) {
  while (!waiting_.empty() && Clock::now() < deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd polled{descriptor_, POLLOUT, 0};
    poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
    pump();
  }
}

void Sink::pump() {
  while (!waiting_.empty() && write_some()) continue;
  if (waiting_.empty()) {
    loop_.unwatch(descriptor_);
  } else {
    loop_.watch(descriptor_, POLLOUT, [this] { pump(); });
  }
}

// A ready pipe accepts PIPE_BUF bytes without blocking; we must not change its flags.
bool Sink::write_some() {
  pollfd polled{descriptor_, POLLOUT, 0};
  if (poll(&polled, 1, 0) <= 0) return false;
  const size_t length = std::min<size_t>(waiting_.size(), PIPE_BUF);
  const ssize_t written = ::write(descriptor_, waiting_.data(), length);
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (written < 0) broken_ = true;
  waiting_.erase(0, written < 0 ? waiting_.size() : static_cast<size_t>(written));
  return true;
}

}  // namespace tessera
