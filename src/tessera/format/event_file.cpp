#include "tessera/format/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/format/checksum.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  }
  return bytes;
}

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<char>(number | 0x80));
  return bytes + static_cast<char>(number);
}

// The fields of a message: a number and a wire type, then the value.
std::string key(uint64_t field, uint64_t wire_type) {
  return varint(field * 8 + wire_type);
}
std::string integer(uint64_t field, int64_t value) {
  return key(field, 0) + varint(static_cast<uint64_t>(value));
}
std::string float64(uint64_t field, double value) {
  return key(field, 1) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string text(uint64_t field, std::string_view value) {
  return key(field, 2) + varint(value.size()) + std::string(value);
}
std::string float32(uint64_t field, double value) {
  return key(field, 5) + little_endian(std::bit_cast<uint32_t>(static_cast<float>(value)));
}

std::string masked_checksum(std::string_view bytes) {
  const uint32_t sum = crc32c(std::as_bytes(std::span(bytes)));
  return little_endian(std::rotr(sum, 15) + 0xA282EAD8);
}

std::string record(std::string_view message) {
  const std::string length = little_endian(uint64_t{message.size()});
  return concat(length, masked_checksum(length), message, masked_checksum(message));
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Readers take the files of a folder in name order, so the time in the name must be the latest.
int64_t time_of_next_file(const std::string& folder) {
  auto time = static_cast<int64_t>(now());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!is_event_file(name)) continue;
    const std::string_view rest = std::string_view(name).substr(kPrefix.size());
    const auto known = to_integer(rest.substr(0, rest.find('.')));
    if (known && *known < 9'999'999'999) time = std::max(time, *known + 1);
  }
  return time;
}

}  // namespace

std::string version_record(double time) {
  return record(float64(1, time) + text(3, "brain.Event:2"));
}

std::string scalar_record(double time, int64_t step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += text(1, text(1, tag) + float32(2, value));
  return record(float64(1, time) + integer(2, step) + text(5, summary));
}

std::string restart_record(double time, int64_t step) {
  constexpr int64_t kStart = 1;
  return record(float64(1, time) + integer(2, step) + text(7, integer(1, kStart)));
}

bool is_event_file(std::string_view name) {
  return name.starts_with(kPrefix);
}

EventFile::EventFile(const std::string& folder, int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(concat("cannot make ", folder, ": ", error.message()));
  path_ = concat(folder, "/", kPrefix, time_of_next_file(folder), ".", host_name(), ".", getpid(),
                 ".0");
  file_ = checked(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666),
                  "cannot write " + path_);
  write_all(file_, version_record(now()), path_);
  if (first_step > 0) write_all(file_, restart_record(now(), first_step), path_);
}

void EventFile::append(int64_t step, std::span<const EventScalar> scalars) {
  write_all(file_, scalar_record(now(), step, scalars), path_);
}

}  // namespace tessera
