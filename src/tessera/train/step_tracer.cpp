#include "tessera/train/step_tracer.h"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/comm/objects.h"
#include "tessera/comm/recorded_operations.h"
#include "tessera/draw/step_trace.h"
#include "tessera/format/new_file.h"

namespace tessera {
namespace {

// The clock of the flight recorder.
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// LibTorch calls it at each allocation and release of a thread that has it.
class MemoryObserver final : public c10::MemoryReportingInfoBase {
 public:
  explicit MemoryObserver(std::function<void(StepTrace::Memory)> report)
      : report_(std::move(report)) {}

  void reportMemoryUsage(void* /*pointer*/, int64_t /*size*/, size_t total, size_t /*reserved*/,
                         c10::Device device) override {
    report_({device.str(), now_ns(), static_cast<int64_t>(total)});
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  std::function<void(StepTrace::Memory)> report_;
};

struct RunningOperator final : at::ObserverContext {
  int64_t begin_ns = now_ns();
};

}  // namespace

struct StepTracer::Recording {
  std::mutex mutex;
  StepTrace trace;
  std::map<std::thread::id, int64_t> threads;
  at::CallbackHandle callback = 0;
  std::optional<c10::DebugInfoGuard> memory = std::nullopt;

  static inline std::atomic<Recording*> current =
      nullptr;  // LibTorch's callbacks are plain functions.

  void begin() {
    current = this;
    callback = at::addGlobalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
              return std::make_unique<RunningOperator>();
            },
            [](const at::RecordFunction& function, at::ObserverContext* context) {
              Recording* const recording = current;  // Null for an operator that ends too late.
              if (recording == nullptr) return;
              recording->add(function.name(), static_cast<RunningOperator*>(context)->begin_ns);
            })
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    memory.emplace(c10::DebugInfoKind::PROFILER_STATE,
                   std::make_shared<MemoryObserver>([this](StepTrace::Memory report) {
                     const std::scoped_lock lock(mutex);
                     trace.memory.push_back(std::move(report));
                   }));
  }

  void end() {
    memory.reset();
    at::removeCallback(callback);
    current = nullptr;
  }

  void add(const char* name, int64_t begin_ns) {
    const std::scoped_lock lock(mutex);
    const int64_t thread =
        threads.emplace(std::this_thread::get_id(), std::ssize(threads)).first->second;
    trace.operators.push_back({name, thread, {begin_ns, now_ns()}});
  }
};

StepTracer::StepTracer(Span steps, std::string folder, const Group& world)
    : steps_(steps),
      folder_(std::move(folder)),
      world_(world),
      recording_(std::make_unique<Recording>()) {
  recording_->trace.rank = world.global_rank(world.rank()).value;
  recording_->trace.start_ns = broadcast_object(now_ns(), GroupRank{0}, world);
}

StepTracer::~StepTracer() {
  if (Recording::current == recording_.get()) recording_->end();
}

void StepTracer::before_step(int64_t step) {
  if (!traces(step)) return;
  recording_->begin();
  recording_->trace.steps.push_back({step, {now_ns(), 0}});
}

void StepTracer::after_step(int64_t step) {
  if (Recording::current != recording_.get()) return;
  recording_->end();
  recording_->trace.steps.back().time.end_ns = now_ns();
  if (step + 1 == steps_.end) write();
}

void StepTracer::write() const {
  StepTrace& trace = recording_->trace;
  trace.communication = recorded_operations(world_);
  std::ostringstream text;
  write_step_trace(trace, text);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  NewFile file(
      concat(folder_, "/steps-", steps_.begin, "-", steps_.end - 1, ".rank-", trace.rank, ".json"));
  file.write(text.str());
  file.finish();
}

}  // namespace tessera
