#include "tessera/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/mapped_file.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// What diverged is null in the file: JSON has no other word for it.
double number(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

StepMetrics metrics_of(const Json& object) {
  StepMetrics metrics{.step = object.at("step").get<int64_t>(),
                      .loss = number(object, "loss"),
                      .grad_norm = number(object, "grad_norm"),
                      .lr = number(object, "lr"),
                      .ms = number(object, "ms"),
                      .tokens_per_s = number(object, "tokens_per_s"),
                      .mem_bytes = object.at("mem_bytes").get<int64_t>()};
  if (object.contains("validation_loss")) {
    metrics.validation_loss = number(object, "validation_loss");
  }
  return metrics;
}

// Without a last line that has no end.
std::string_view whole_lines(const MappedFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return text.substr(0, text.rfind('\n') + 1);
}

}  // namespace

std::string to_json(const StepMetrics& metrics) {
  Json object{{"step", metrics.step},
              {"loss", metrics.loss},
              {"grad_norm", metrics.grad_norm},
              {"lr", metrics.lr},
              {"ms", metrics.ms},
              {"tokens_per_s", metrics.tokens_per_s},
              {"mem_bytes", metrics.mem_bytes}};
  if (metrics.validation_loss) object["validation_loss"] = *metrics.validation_loss;
  return object.dump();
}

StepMetrics parse_step_metrics(std::string_view text, std::string_view origin) {
  try {
    return metrics_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw DataError(concat(origin, " holds no metrics of a step: ", error.what()));
  }
}

MetricsFile::MetricsFile(std::string path)
    : path_(std::move(path)),
      file_(checked(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666),
                    "cannot write " + path_)) {
  if (lseek(file_.get(), 0, SEEK_END) <= 0) return;
  const auto length = static_cast<off_t>(whole_lines(MappedFile(path_)).size());
  if (ftruncate(file_.get(), length) != 0) throw_system_error("cannot write " + path_);
}

void MetricsFile::append(const StepMetrics& metrics) {
  write_all(file_, to_json(metrics) + "\n", path_);
}

std::vector<StepMetrics> read_metrics(const std::string& path) {
  const MappedFile file(path);
  std::vector<StepMetrics> steps;
  for (const std::string_view line : split(whole_lines(file), '\n')) {
    const auto origin = [&] { return concat(path, ", line ", steps.size() + 1); };
    if (!line.empty()) steps.push_back(parse_step_metrics(line, origin()));
  }
  return steps;
}

}  // namespace tessera
