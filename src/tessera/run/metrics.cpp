#include "tessera/run/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/json_field.h"
#include "tessera/base/text.h"
#include "tessera/format/mapped_file.h"
#include "tessera/format/new_file.h"

namespace tessera {
namespace {

// Non-finite values are null, as JSON cannot write them.
double number(const JsonField& field) {
  return field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.number();
}

NamedBytes bytes_of(const JsonField& root, const char* key) {
  NamedBytes all;
  if (!root.has(key)) return all;
  root.at(key).members(
      [&](const std::string& name, const JsonField& bytes) { all[name] = bytes.integer(); });
  return all;
}

StepMetrics metrics_of(const JsonField& root) {
  StepMetrics metrics{.step = root.at("step").integer(),
                      .loss = number(root.at("loss")),
                      .grad_norm = number(root.at("grad_norm")),
                      .lr = number(root.at("lr")),
                      .ms = number(root.at("ms")),
                      .tokens_per_s = number(root.at("tokens_per_s")),
                      .mem_bytes = root.at("mem_bytes").integer()};
  if (root.has("validation_loss")) metrics.validation_loss = number(root.at("validation_loss"));
  if (root.has("loss_scale")) metrics.loss_scale = number(root.at("loss_scale"));
  metrics.sent_bytes = bytes_of(root, "sent_bytes");
  metrics.held_bytes = bytes_of(root, "held_bytes");
  if (root.has("aux_loss")) metrics.aux_loss = number(root.at("aux_loss"));
  if (root.has("z_loss")) metrics.z_loss = number(root.at("z_loss"));
  if (root.has("expert_load")) metrics.expert_load = root.at("expert_load").list(number);
  if (root.has("dropped_share")) metrics.dropped_share = number(root.at("dropped_share"));
  if (root.has("spike")) metrics.spike = root.at("spike").boolean();
  if (root.has("skipped")) metrics.skipped = root.at("skipped").boolean();
  if (root.has("rolled_back_to")) metrics.rolled_back_to = root.at("rolled_back_to").integer();
  return metrics;
}

// The text up to its last line break.
std::string_view whole_lines(const MappedFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return text.substr(0, text.rfind('\n') + 1);
}

}  // namespace

double StepMetrics::largest_load() const {
  return expert_load.empty() ? 1 : *std::ranges::max_element(expert_load);
}

bool StepMetrics::is_good() const {
  return std::isfinite(loss) && std::isfinite(grad_norm) && !spike;
}

std::string to_json(const StepMetrics& metrics) {
  nlohmann::ordered_json object{{"step", metrics.step},
                                {"loss", metrics.loss},
                                {"grad_norm", metrics.grad_norm},
                                {"lr", metrics.lr},
                                {"ms", metrics.ms},
                                {"tokens_per_s", metrics.tokens_per_s},
                                {"mem_bytes", metrics.mem_bytes}};
  if (metrics.validation_loss) object["validation_loss"] = *metrics.validation_loss;
  if (metrics.loss_scale) object["loss_scale"] = *metrics.loss_scale;
  if (!metrics.sent_bytes.empty()) object["sent_bytes"] = metrics.sent_bytes;
  if (!metrics.held_bytes.empty()) object["held_bytes"] = metrics.held_bytes;
  if (metrics.aux_loss) object["aux_loss"] = *metrics.aux_loss;
  if (metrics.z_loss) object["z_loss"] = *metrics.z_loss;
  if (!metrics.expert_load.empty()) {
    object["largest_load"] = metrics.largest_load();
    object["expert_load"] = metrics.expert_load;
  }
  if (metrics.dropped_share) object["dropped_share"] = *metrics.dropped_share;
  if (metrics.spike) object["spike"] = true;
  if (metrics.skipped) object["skipped"] = true;
  if (metrics.rolled_back_to) object["rolled_back_to"] = *metrics.rolled_back_to;
  return object.dump();
}

StepMetrics parse_step_metrics(std::string_view text, std::string_view origin) {
  const JsonSource source{.origin = origin, .what = "line of metrics"};
  const nlohmann::json document = parse_json(text, source);
  return metrics_of(JsonField(document, source));
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

void drop_metrics_from(const std::string& path, int64_t step) {
  std::string kept;
  for (const StepMetrics& metrics : read_metrics(path)) {
    if (metrics.step < step) kept += to_json(metrics) + "\n";
  }
  NewFile file(path);
  file.write(kept);
  file.finish();
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
