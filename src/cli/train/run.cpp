#include "cli/train/run.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <malloc.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/called_as.h"
#include "cli/files.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/train/encode.h"
#include "cli/train/sample.h"
#include "cli/train/sample_text.h"
#include "cli/train/screen.h"
#include "cli/version.h"
#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/error_words.h"
#include "tessera/base/number_text.h"
#include "tessera/base/shell.h"
#include "tessera/base/terminal_text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/dump_on_signal.h"
#include "tessera/comm/launch_info.h"
#include "tessera/format/llama_size.h"
#include "tessera/launch/worker.h"
#include "tessera/run/report.h"
#include "tessera/run/run_folder.h"
#include "tessera/run/run_log.h"
#include "tessera/run/tokenizer_files.h"
#include "tessera/train/job.h"
#include "tessera/train/texts.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

volatile std::sig_atomic_t signal_taken = 0;

// The first signal stops the run after its step (or those that are queued), a second SIGINT or
// SIGHUP at once. SIGTERM may come twice, from a scheduler and from a launcher, and both send
// SIGKILL if it takes too long. Signals that nohup or a shell ignores stay ignored.
void take_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = [](int taken) { signal_taken = taken; };
    action.sa_flags = SA_RESTART | (number == SIGTERM ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(number, &action, nullptr);
  }
}

// Every step reuses the memory of the previous one. If free() returned it to the system, the kernel
// would map and zero it again page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // The largest value that mallopt accepts.
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

// A new run removes the previous one in its folder, so it must not start from what that one left.
void check_apart(std::string_view what, const std::string& path, const std::string& run) {
  TSR_CHECK(path.empty() || !lies_in(path, run), "the ", what, " ", path,
            " lies in the run directory ", run,
            ", whose content this run would replace; choose another run directory");
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::ostringstream text;
  text << std::put_time(std::localtime(&now), "%Y-%m-%d %H:%M:%S %Z");
  return text.str();
}

/// The history of a run, for its report.
struct Record {
  std::string command;
  ModelSize model;
  std::string start = local_time();
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::vector<StepMetrics> steps = {};
  int64_t first_step = 0;  // Of this process; `steps` has those that it resumes as well.
  int64_t last_step = 0;   // The steps of the whole run.

  std::string duration() const {
    return clock_text(Seconds(std::chrono::steady_clock::now() - begin).count());
  }

  std::optional<double> validation_loss() const {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (step->validation_loss) return step->validation_loss;
    }
    return std::nullopt;
  }

  std::string summary() const {
    if (steps.empty()) return "no step was done";
    const auto validation = validation_loss();
    const auto skipped = std::ranges::count_if(steps, &StepMetrics::skipped);
    const auto own = std::ranges::count_if(
        steps, [&](const StepMetrics& step) { return step.step >= first_step; });
    const int64_t done = steps.back().step + 1;
    const std::string stopped =
        done < last_step ? concat("stopped after ", done, " of ", last_step, " steps: ") : "";
    return concat(stopped, own, own == 1 ? " step" : " steps",
                  skipped == 0 ? "" : concat(" (", skipped, " skipped)"), " in ", duration(),
                  first_step == 0 ? "" : concat(", ", steps.size(), " in all"), ", loss ",
                  fixed(steps.front().loss, 3), " → ", fixed(steps.back().loss, 3),
                  validation ? ", validation loss " + fixed(*validation, 3) : "");
  }
};

// What rank 0 sent in the last step; "" if nothing.
std::string sent_of(const TrainConfig& config, const Record& record) {
  return record.steps.empty() ? "" : sent_text(config, record.model, record.steps.back());
}

std::string model_name(const ModelSection& model) {
  return model.path.empty() ? model.preset : model.path;
}

void write_report(const TrainConfig& config, const Record& record, const RunFolder& folder,
                  std::vector<ReportPicture> pipeline = {}) {
  ReportPage page = report_of(config, record.steps);
  page.title = concat("Training ", model_name(config.model));
  page.summary = record.summary();
  page.run = {{"Command", record.command},
              {"Started", record.start},
              {"Duration", record.duration()},
              {"Ranks", std::to_string(config.parallel.nproc)},
              {"Threads of a rank", std::to_string(at::get_num_threads())},
              {"Versions", concat(version_text(), "libtorch ", TORCH_VERSION)}};
  const std::string sent = sent_of(config, record);
  if (!sent.empty()) page.run.emplace_back("Sent by rank 0 in the last step", sent);
  const std::string memory = memory_text(config, record.steps);
  if (!memory.empty()) page.run.emplace_back("Memory of rank 0", memory);
  page.mesh = mesh_pictures(config.parallel);
  page.pipeline = std::move(pipeline);
  for (ReportPicture& picture : expert_pictures(record.steps)) {
    page.pipeline.push_back(std::move(picture));
  }
  folder.write(RunFolder::kReport, draw_page(page));
}

// All steps of the run. They are read when they are needed: small values that stay while large ones
// come and go would make the memory of a long run grow.
std::vector<StepMetrics> steps_of(const RunFolder& folder) {
  const std::string path = folder.path(RunFolder::kMetrics);
  return fs::exists(path) ? read_metrics(path) : std::vector<StepMetrics>();
}

// A report helps to find out why a run failed. If it cannot be written, that error is printed
// before the error of the run.
void try_to_report(const TrainConfig& config, Record& record, const RunFolder& folder) {
  try {
    record.steps = steps_of(folder);
    write_report(config, record, folder);
  } catch (const std::exception& error) {
    std::cerr << "tessera: " << visible_lines(error_words(error)) << "\n";
  }
}

// "16 ranks (dp 2 × tp 2 × cp 2 × pp 2, 1f1b) of "; "" for one rank.
std::string ranks_text(const ParallelSection& parallel) {
  if (parallel.nproc == 1) return "";
  const std::string tensor = parallel.tp == 1 ? "" : concat(" × tp ", parallel.tp);
  const std::string context = parallel.cp == 1 ? "" : concat(" × cp ", parallel.cp);
  const std::string experts = concat(parallel.ep == 1 ? "" : concat(", ep ", parallel.ep),
                                     parallel.etp == 1 ? "" : concat(", etp ", parallel.etp));
  const std::string pipeline =
      parallel.pp == 1 ? "" : concat(" × pp ", parallel.pp, ", ", parallel.schedule);
  return concat(parallel.nproc, " ranks (dp ", parallel.dp, tensor, context, pipeline, experts,
                ") of ");
}

void announce(const TrainConfig& config, const TrainJob& job) {
  const int threads = at::get_num_threads();
  std::cerr << concat(
      model_name(config.model), ": ", with_thousands(job.model.parameter_count()),
      " parameters in ", config.train.dtype, ", into ", config.run.dir, "\n", config.train.steps,
      " steps of ", config.data.batch, " × ", config.data.seq, " tokens on ",
      ranks_text(config.parallel), threads, threads == 1 ? " thread" : " threads",
      job.options.first_step == 0 ? "" : concat(", resumed after step ", job.options.first_step),
      config.run.save || config.run.save_every > 0
          ? ""
          : "; weights are not kept (--run.save=true keeps them)",
      "\n");
}

// The token files in place of texts.
void announce_texts(const TrainConfig& config) {
  const std::vector<std::string> tokens = token_paths(config);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& path = config.data.paths[i];
    if (tokens[i] == path) continue;
    std::cerr << concat(visible(path), ": tokens in ", visible(tokens[i]), "\n");
  }
}

void begin(const TrainConfig& config, const TrainJob& job, const RunFolder& folder) {
  const int64_t step = job.options.first_step;
  step == 0 ? folder.begin() : folder.resume(step);
  folder.write(RunFolder::kConfig, to_toml(job.wanted));
  announce(config, job);
  announce_texts(config);
}

std::string next_steps(const TrainConfig& config, int code) {
  const std::string& dir = config.run.dir;
  const std::string text = concat(dir, " holds ", RunFolder::kReport, " and ", RunFolder::kMetrics);
  if (code == kResumeExitCode) {
    return text + "\nnext: the same command with --resume continues the run\n";
  }
  if (code != kOk && config.run.save_every > 0) {
    return concat(text, "\nnext: ", called_as(), " train --resume --run-dir ", shell_word(dir),
                  " continues the run\n");
  }
  if (code != kOk) return text + "\nThe run cannot be continued: --save-every N keeps its state\n";
  if (!config.run.save) return text + "\nnext: --run.save=true keeps the weights, too\n";
  return concat(text, ", and the weights in ", RunFolder::kModel, "/\nnext: ", called_as(),
                " export ", shell_word(dir), " ", shell_word(dir + "/export"),
                "\nor: ", called_as(), " train --model ",
                shell_word(concat(dir, "/", RunFolder::kModel)), " --data YOURS --run.save=true\n");
}

// The weights of a run are of use without its tokenizer, too.
void save_tokenizer(const TrainConfig& config, int64_t vocab_size) {
  if (config.data.tokenizer.empty() || config.data.kind == "bytes") return;
  try {
    copy_tokenizer(config.data.tokenizer, fs::path(config.run.dir) / RunFolder::kModel, vocab_size);
  } catch (const std::exception& error) {
    std::cerr << concat("warning: the tokenizer was not saved: ", visible_lines(error_words(error)),
                        "\n");
  }
}

// "saved runs/1/checkpoints/step-00000100: 120.0 MB in 0.4 s (300 MB/s), training waited 20 ms".
std::string save_text(const SaveReport& report) {
  if (!report.succeeded()) {
    return concat("warning: ", report.path,
                  " was not saved, and the run continues: ", visible(report.error));
  }
  const double megabytes = static_cast<double>(report.bytes) / 1e6;
  return concat("saved ", report.path, ": ", fixed(megabytes, 1), " MB in ",
                fixed(report.seconds, 2), " s (", fixed(megabytes / report.seconds, 0),
                " MB/s), training waited ", fixed(report.stall_s * 1e3, 0), " ms");
}

// All ranks train; rank 0 reports.
int64_t train_and_record(TrainJob& job, const std::optional<RunFolder>& folder) {
  std::optional<RunLog> log;
  std::optional<TrainScreen> screen;
  TrainerHooks hooks{.should_stop = [] { return signal_taken != 0; }};
  if (folder) {
    log.emplace(*folder, job.config.run, job.options.first_step);
    screen.emplace(job.options.steps, job.options.first_step);
    hooks.after_step = [&](const StepMetrics& step) {
      log->append(step);
      screen->show(step);
    };
  }
  take_signals();
  return train(job, hooks, [&](const SaveReport& report) {
    if (screen) screen->say(save_text(report));
  });
}

// **Collective.** A signal may have reached one rank only; all end with the same code.
int exit_code_of(const TrainJob& job, int64_t steps) {
  const at::Tensor mine = at::full({1}, static_cast<int>(signal_taken), at::kInt);
  const int taken = all_reduce(mine, job.world.group(), ReduceOp::kMax).wait().item<int>();
  if (steps == job.options.steps) return kOk;
  const bool saves = job.config.run.save_every > 0;
  return taken == SIGTERM && saves ? kResumeExitCode : 128 + taken;
}

// A line of the data to continue, of the part that the model has not seen if there is one.
std::vector<int64_t> first_row(const TrainJob& job) {
  const TokenBatches& batches = job.validation ? *job.validation : job.batches;
  return batches.batches().rows(0, 0, 1).inputs;
}

void show_sample(const TextSample& sample, const TerminalOptions& options) {
  std::cout << concat("the model continues “", visible(sample.prompt), "”:\n",
                      draw_sample(sample.prompt, sample.more, options), "more: ", sample.command,
                      " --seed 1\n");
}

void show_result(const TrainConfig& config, const Record& record,
                 const std::optional<TextSample>& sample, int code) {
  constexpr size_t kCurve = 3;  // Fewer points do not make a curve.
  const TerminalOptions options{.width = std::min<int64_t>(terminal_width(), 100),
                                .color = color_mode("auto")};
  if (record.steps.size() >= kCurve) {
    std::cout << draw_terminal(loss_curve(record.steps), options) << '\n';
  }
  std::cout << record.summary() << '\n';
  const std::string sent = sent_of(config, record);
  if (!sent.empty()) std::cout << "sent by rank 0 in the last step:\n" << sent << '\n';
  if (sample) show_sample(*sample, options);
  std::cout << next_steps(config, code);
}

}  // namespace

RunFolder open_run_folder(const RunSection& run) {
  if (run.dir.empty()) return RunFolder::next_in("runs");
  if (run.overwrite) return {run.dir, FormerRun::kOverwrite};
  return {run.dir, run.resume ? FormerRun::kResume : FormerRun::kRefuse};
}

int train_run(TrainConfig config, TrainConfig wanted, const std::string& command) {
  dump_on_signal();
  std::optional<RunFolder> folder;  // Only on rank 0.
  if (read_launch_info(process_environment()).rank == 0) {
    folder.emplace(open_run_folder(config.run));
    config.run.dir = folder->path();
    check_apart("model", config.model.path, config.run.dir);
    check_apart("tokenizer", config.data.tokenizer, config.run.dir);
    encode_texts_of(config);
  }
  keep_freed_memory();
  TrainJob job = make_job(config, std::move(wanted));
  if (folder) begin(config, job, *folder);
  const LlamaConfig& shape = job.model.shape;
  Record record{.command = command,
                .model = {.hidden = shape.hidden_size,
                          .layers = shape.num_hidden_layers,
                          .stages = job.model.engine.schedule().num_stages(),
                          .parameters = job.model.parameter_count(),
                          .heads = {.query = shape.num_attention_heads,
                                    .kv = shape.num_key_value_heads,
                                    .size = shape.head_dim},
                          .experts_per_token = shape.num_experts_per_tok,
                          .expert_layers = shape.num_sparse_layers(),
                          .expert_parameters = expert_parameter_count(shape)},
                .first_step = job.options.first_step,
                .last_step = config.train.steps};
  int code = kOk;
  try {
    code = exit_code_of(job, train_and_record(job, folder));
  } catch (const std::exception&) {
    if (folder) try_to_report(config, record, *folder);
    throw;
  }
  if (folder) record.steps = steps_of(*folder);
  if (folder) write_report(config, record, *folder);  // First: the weights may not fit on the disk.
  const bool ends = config.run.save && code != kResumeExitCode;
  if (folder && ends) {
    folder->remove_model();
    save_tokenizer(config, shape.vocab_size);
  }
  if (ends) job.model.save(fs::path(job.config.run.dir) / RunFolder::kModel);
  job.world.close();  // After this, all ranks have recorded their steps.
  if (folder) {
    write_report(config, record, *folder, recorded_pictures(config.run.dir));
    std::optional<TextSample> sample;
    if (ends && code == kOk) sample = write_sample(config, shape.vocab_size, first_row(job));
    show_result(config, record, sample, code);
  }
  return code;
}

}  // namespace tessera::cli
