#include "tessera/launch/failure.h"

#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::streamsize kLargestFile = 1 << 20;
constexpr size_t kLongestMessage = 2000;

// Accepts a number or a string.
int64_t number_of(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return 0;
  const json& value = object[key];
  if (value.is_string()) return to_integer(value.get<std::string>()).value_or(0);
  if (!value.is_number()) return 0;
  const auto number = value.get<double>();
  return number > 0 && number < 1e15 ? static_cast<int64_t>(number) : 0;
}

int64_t time_of(const json& holder) {
  constexpr int64_t kMicros = 1'000'000;
  const int64_t fine = number_of(holder, "timestamp_us");
  const int64_t seconds = number_of(holder, "timestamp");
  if (fine > 0) return fine;
  return seconds > 0 && seconds < INT64_MAX / kMicros ? seconds * kMicros : 0;
}

std::optional<ErrorReport> report_of(const json& file) {
  if (!file.is_object() || !file.contains("message")) return std::nullopt;
  const json& message = file["message"];
  if (message.is_string()) return ErrorReport{message.get<std::string>(), time_of(file)};
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) {
    return std::nullopt;
  }
  return ErrorReport{message["message"].get<std::string>(),
                     time_of(message.value("extraInfo", json::object()))};
}

}  // namespace

std::string signal_name(int64_t number) {
  const char* name = sigabbrev_np(static_cast<int>(number));
  return name == nullptr ? concat("signal ", number) : concat("SIG", name);
}

std::string status_text(int status) {
  if (!WIFSIGNALED(status)) return concat("exit code ", WEXITSTATUS(status));
  const char* words = sigdescr_np(WTERMSIG(status));
  return concat(signal_name(WTERMSIG(status)), words == nullptr ? "" : concat(" (", words, ")"));
}

std::optional<ErrorReport> read_error_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFile, '\0');
  if (!file) return std::nullopt;
  file.read(text.data(), kLargestFile);
  text.resize(static_cast<size_t>(file.gcount()));
  auto report = report_of(json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (report && report->message.size() > kLongestMessage) {
    report->message.resize(kLongestMessage);
    report->message += "…";
  }
  return report;
}

}  // namespace tessera
