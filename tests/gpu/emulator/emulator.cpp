#include "tests/gpu/emulator/emulator.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/text.h"
#include "tessera/kernel/nvrtc/compiler.h"
#include "tessera/kernel/nvrtc/conversions.h"
#include "tessera/kernel/nvrtc/nvrtc.h"
#include "tessera/launch/temporary_folder.h"
#include "tests/gpu/emulator/machine.h"

namespace tessera::emulator {
namespace {

constexpr unsigned kWarp = 32;

using Kernel = void (*)(void** arguments);

// One thread of a block.
class Thread {
 public:
  enum class State { kReady, kInShuffle, kAtBarrier, kEnded };

  struct Shuffle {
    const void* mine;
    void* theirs;
    unsigned size;
    unsigned lane;
  };

  Thread() : stack_(std::make_unique<char[]>(kStackBytes)) {}

  // Runs it from the beginning, until it waits or ends.
  void start(Kernel kernel, void** arguments) {
    kernel_ = kernel;
    arguments_ = arguments;
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.get();
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = &outside_;
    const auto address = reinterpret_cast<uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&run), 2, static_cast<unsigned>(address >> 32U),
                static_cast<unsigned>(address));
    state = State::kReady;
  }
  void go_on() { swapcontext(&outside_, &own_); }
  void wait(State reason) {
    state = reason;
    swapcontext(&own_, &outside_);
  }

  State state = State::kEnded;
  Shuffle shuffle{};

 private:
  static constexpr size_t kStackBytes = 64 * 1024;

  static void run(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<Thread*>((static_cast<uintptr_t>(high) << 32U) | low);
    self->kernel_(self->arguments_);
    self->state = State::kEnded;
  }

  std::unique_ptr<char[]> stack_;
  ucontext_t own_{};
  ucontext_t outside_{};
  Kernel kernel_ = nullptr;
  void** arguments_ = nullptr;
};

using State = Thread::State;

// Runs blocks one after the other. Threads run until they wait, in an order that changes from block
// to block.
class Processor {
 public:
  static Processor& get() {
    static Processor processor;
    return processor;
  }

  Machine machine{};

  // What is wrong with the kernel, or nothing.
  std::string run(Kernel kernel, unsigned blocks, unsigned threads, void** arguments) {
    while (threads_.size() < threads) threads_.push_back(std::make_unique<Thread>());
    count_ = threads;
    machine.blocks = {blocks, 1, 1};
    machine.threads_of_block = {threads, 1, 1};
    ++num_runs_;
    for (unsigned block = 0; block < blocks; ++block) {
      machine.block = {block, 0, 0};
      for (unsigned i = 0; i < count_; ++i) threads_[i]->start(kernel, arguments);
      const std::string wrong = run_block(/*backwards=*/(block + num_runs_) % 2 == 1);
      if (!wrong.empty()) return concat("block ", block, ": ", wrong);
    }
    return "";
  }

 private:
  Processor() {
    machine.synchronize_block = [] { get().running().wait(State::kAtBarrier); };
    machine.shuffle = [](const void* mine, void* theirs, unsigned size, unsigned lane) {
      get().running().shuffle = {mine, theirs, size, lane};
      get().running().wait(State::kInShuffle);
    };
  }

  Thread& running() { return *threads_[machine.thread.x]; }

  // A warp runs as far as it can before the next one does.
  std::string run_block(bool backwards) {
    const unsigned warps = (count_ + kWarp - 1) / kWarp;
    while (true) {
      for (unsigned i = 0; i < warps; ++i) {
        const unsigned begin = (backwards ? warps - 1 - i : i) * kWarp;
        const std::string wrong = run_warp(begin, std::min(begin + kWarp, count_), backwards);
        if (!wrong.empty()) return wrong;
      }
      if (number_in(State::kEnded, 0, count_) == count_) return "";
      if (!all_wait_in(State::kAtBarrier, 0, count_)) {
        return "threads wait for each other in different places";
      }
      release(State::kAtBarrier, 0, count_);
    }
  }

  std::string run_warp(unsigned begin, unsigned end, bool backwards) {
    while (true) {
      for (unsigned i = begin; i < end; ++i) {
        const unsigned index = backwards ? begin + end - 1 - i : i;
        machine.thread = {index, 0, 0};
        if (threads_[index]->state == State::kReady) threads_[index]->go_on();
      }
      if (!all_wait_in(State::kInShuffle, begin, end)) return "";
      const std::string wrong = exchange(begin, end);
      if (!wrong.empty()) return wrong;
      release(State::kInShuffle, begin, end);
    }
  }

  unsigned number_in(State state, unsigned begin, unsigned end) const {
    unsigned number = 0;
    for (unsigned i = begin; i < end; ++i) number += threads_[i]->state == state ? 1 : 0;
    return number;
  }

  bool all_wait_in(State state, unsigned begin, unsigned end) const {
    const unsigned waiting = number_in(state, begin, end);
    return waiting > 0 && waiting + number_in(State::kEnded, begin, end) == end - begin;
  }

  void release(State from, unsigned begin, unsigned end) {
    for (unsigned i = begin; i < end; ++i) {
      if (threads_[i]->state == from) threads_[i]->state = State::kReady;
    }
  }

  std::string exchange(unsigned begin, unsigned end) {
    std::vector<std::vector<char>> given(end - begin);
    for (unsigned i = begin; i < end; ++i) {
      if (threads_[i]->state != State::kInShuffle) continue;
      const Thread::Shuffle& shuffle = threads_[i]->shuffle;
      const auto* const bytes = static_cast<const char*>(shuffle.mine);
      given[i - begin].assign(bytes, bytes + shuffle.size);
    }
    for (unsigned i = begin; i < end; ++i) {
      if (threads_[i]->state != State::kInShuffle) continue;
      const Thread::Shuffle& shuffle = threads_[i]->shuffle;
      if (shuffle.lane >= given.size() || given[shuffle.lane].size() != shuffle.size) {
        return concat("thread ", i, " takes a value from lane ", shuffle.lane,
                      ", which gives none");
      }
      std::memcpy(shuffle.theirs, given[shuffle.lane].data(), shuffle.size);
    }
    return "";
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  unsigned count_ = 0;
  unsigned num_runs_ = 0;
};

// Undefined behaviour ends the program: addresses that are not aligned, indices outside of arrays.
Kernel compile(const std::string& name, const std::string& source, const std::string& flags) {
  const TemporaryFolder folder;
  const std::string base = concat(folder.path(), "/", name);
  std::ofstream(base + ".cpp") << "#include \"tests/gpu/emulator/cuda.h\"\n"
                               << source
                               << "\nextern \"C\" void call(void** arguments) { call_with(" << name
                               << ", arguments); }\n";
  const std::string command =
      concat(TESSERA_EMULATOR_COMPILER
             " -std=c++20 -O1 -w -shared -fPIC -fsanitize=undefined "
             "-fsanitize-undefined-trap-on-error "
             "-fno-sanitize=float-divide-by-zero " TESSERA_EMULATOR_INCLUDES " ",
             flags, " -o ", base, ".so ", base, ".cpp 2> ", base, ".log");
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(base + ".log");
    throw StateError(concat("kernel '", name, "' does not compile with ", flags, ": ",
                            std::string(std::istreambuf_iterator<char>(log), {})));
  }
  void* const library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  TSR_CHECK(library != nullptr, dlerror());
  *static_cast<Machine**>(dlsym(library, "machine")) = &Processor::get().machine;
  return reinterpret_cast<Kernel>(dlsym(library, "call"));
}

// With TESSERA_NVRTC, the path of that library, each kernel is also compiled for GPUs, which need
// not be there.
void compile_for_gpus(const std::string& name, const std::string& source,
                      const std::string& flags) {
  const std::string path = process_environment()("TESSERA_NVRTC").value_or("");
  if (path.empty()) return;
  static const kernel::detail::Compiler compiler(kernel::detail::Libraries({path}));
  const bool has_float8 = source.find("fp8") != std::string::npos;  // Older cards have none.
  for (const int generation : {80, 90, 100}) {
    if (has_float8 && generation == 80) continue;
    const std::string log = compiler
                                .compile(name, concat(kernel::detail::kConversions, source),
                                         generation, concat(flags, " --ptxas-options=-v"))
                                .log;
    TSR_CHECK(log.find(" 0 bytes stack frame, 0 bytes spill stores") != std::string::npos,
              "kernel '", name, "' does not fit into registers of sm_", generation, " with ", flags,
              ": ", log);
  }
}

int paused = 0;

}  // namespace

Paused::Paused() {
  ++paused;
}

Paused::~Paused() {
  --paused;
}

}  // namespace tessera::emulator

// What nvrtc.cpp does for a GPU.
namespace tessera::kernel::detail {

bool is_gpu(at::Device device) {
  return device.is_cpu() && emulator::paused == 0;
}

const char* conversions() {
  return "";  // In emulator/cuda.h.
}

std::optional<GpuCapability> capability(at::Device device) {
  if (!is_gpu(device)) return std::nullopt;
  return GpuCapability{.major = 9, .minor = 0};
}

void* compile(at::Device /*device*/, const std::string& name, const std::string& source,
              const std::string& flags) {
  emulator::compile_for_gpus(name, source, flags);
  return reinterpret_cast<void*>(emulator::compile(name, source, flags));
}

void start(at::Device /*device*/, const char* name, void* function, int64_t blocks, int64_t threads,
           void** arguments) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::string wrong = emulator::Processor::get().run(
      reinterpret_cast<emulator::Kernel>(function), static_cast<unsigned>(blocks),
      static_cast<unsigned>(threads), arguments);
  TSR_CHECK(wrong.empty(), "kernel '", name, "': ", wrong);
}

}  // namespace tessera::kernel::detail
