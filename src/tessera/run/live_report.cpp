#include "tessera/run/live_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/machine.h"
#include "tessera/base/number_text.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/config/layers.h"
#include "tessera/draw/report_page.h"
#include "tessera/format/mapped_file.h"
#include "tessera/run/report.h"
#include "tessera/run/run_folder.h"
#include "tessera/run/run_lock.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = size_t{1} << 20;

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

std::string local_time(std::time_t time) {
  std::ostringstream text;
  text << std::put_time(std::localtime(&time), "%Y-%m-%d %H:%M:%S");
  return text.str();
}

// "process 4711 on host a": of the run that owns the folder; "" if none does.
std::string owner_of(const std::string& run) {
  const fs::path path = fs::path(run) / RunLock::kFile;
  if (!fs::exists(path)) return "";
  const std::string text = read_file(path, kMostText);
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 5) return "";
  // A killed run leaves its lock. Processes of other hosts cannot be seen.
  const bool gone = words[4] == host_name() && !fs::exists(concat("/proc/", words[1]));
  return gone ? "" : visible(line);
}

// Of the run's own file; nothing if it cannot be read, e.g. that of another version.
std::optional<TrainConfig> config_of(const std::string& run) {
  try {
    return resolve({.file = read_config_file(fs::path(run) / RunFolder::kConfig)});
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<ReportPicture> pictures_of(const std::string& run,
                                       const std::vector<StepMetrics>& steps) {
  std::vector<ReportPicture> pictures;
  try {
    pictures = recorded_pictures(run);
  } catch (const Error&) {
    pictures.clear();  // The ranks have not yet written all files of the step.
  }
  for (ReportPicture& picture : expert_pictures(steps)) pictures.push_back(std::move(picture));
  return pictures;
}

std::string summary_of(const std::vector<StepMetrics>& steps, const TrainConfig* config) {
  if (steps.empty()) return "No step is done yet.";
  const int64_t done = steps.back().step + 1;
  const auto skipped = std::ranges::count_if(steps, &StepMetrics::skipped);
  const std::string of = config == nullptr ? "" : concat(" of ", config->train.steps);
  return concat(done, of, done == 1 && of.empty() ? " step" : " steps",
                skipped == 0 ? "" : concat(" (", skipped, " skipped)"), ", loss ",
                fixed(steps.front().loss, 3), " → ", fixed(steps.back().loss, 3));
}

}  // namespace

void MetricsReader::update() {
  const auto status = status_of(path_);
  if (!status || status->st_ino != file_ || static_cast<uint64_t>(status->st_size) < offset_) {
    steps_.clear();
    offset_ = 0;
  }
  if (!status) return;
  file_ = status->st_ino;
  if (static_cast<uint64_t>(status->st_size) == offset_) return;
  const MappedFile file(path_);
  std::string text(file.bytes().size() - std::min(offset_, file.bytes().size()), '\0');
  file.read(offset_, std::as_writable_bytes(std::span(text)));
  text.resize(text.rfind('\n') + 1);  // The rest of a line is about to be written.
  for (const std::string_view line : split(text, '\n')) {
    const auto origin = [&] { return concat(path_, ", line ", steps_.size() + 1); };
    if (!line.empty()) steps_.push_back(parse_step_metrics(line, origin()));
  }
  offset_ += text.size();
}

LiveReport::LiveReport(std::string run)
    : run_(std::move(run)), metrics_(fs::path(run_) / RunFolder::kMetrics) {
  const bool holds_run = fs::exists(fs::path(run_) / RunFolder::kConfig) ||
                         fs::exists(fs::path(run_) / RunFolder::kMetrics);
  if (!holds_run) {
    throw DataError(concat(run_, " holds no run (no ", RunFolder::kConfig, " and no ",
                           RunFolder::kMetrics, "); give the run directory of tessera train"));
  }
}

std::optional<ServedPage> LiveReport::page(std::string_view path) {
  if (path == "/favicon.ico") return ServedPage{"image/svg+xml", "", ""};
  if (path != "/" && path != "/data") return std::nullopt;
  metrics_.update();
  return make(path == "/data");
}

std::string LiveReport::version() const {
  std::string text = std::to_string(metrics_.steps().size());
  for (const std::string_view name : {RunFolder::kMetrics, RunFolder::kConfig, RunFolder::kPipeline,
                                      RunFolder::kUnits, RunLock::kFile}) {
    const auto status = status_of(fs::path(run_) / name);
    text += status ? concat(".", status->st_mtim.tv_sec, "-", status->st_mtim.tv_nsec) : ".";
  }
  return concat(text, owner_of(run_).empty() ? ".ended" : "");
}

ServedPage LiveReport::make(bool as_json) const {
  const std::vector<StepMetrics>& steps = metrics_.steps();
  const std::optional<TrainConfig> config = config_of(run_);
  ReportPage page = report_of(config.value_or(TrainConfig{}), steps);
  if (!config) page.configuration.clear();
  page.title = concat("Training ", fs::path(run_).lexically_normal().string());
  page.summary = summary_of(steps, config ? &*config : nullptr);
  page.live = "/data";
  const std::string owner = owner_of(run_);
  page.run = {{"State", owner.empty() ? "not running" : concat("running: ", owner)}};
  if (const auto status = status_of(fs::path(run_) / RunFolder::kMetrics)) {
    page.run.emplace_back("Last step at", local_time(status->st_mtim.tv_sec));
  }
  if (config) page.mesh = mesh_pictures(config->parallel);
  page.pipeline = pictures_of(run_, steps);
  if (as_json) return {"application/json", page_json(page), version()};
  return {"text/html; charset=utf-8", draw_page(page), ""};
}

}  // namespace tessera
