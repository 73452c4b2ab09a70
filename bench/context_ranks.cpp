// One rank of the measurements of context parallelism, which bench/context starts:
//
//   context_ranks attention FOLDER   forward and backward of causal attention, one thread per rank
//   context_ranks threads FOLDER     the same with as many threads as the machine has cores
//   context_ranks overlap FOLDER     the ring's forward, its products alone, its exchange alone
//   context_ranks memory FOLDER      one step of a Llama on 32,768 tokens
//
// Rank 0 prints its figures as one line of JSON.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/layer/attention.h"
#include "tessera/layer/block_attention.h"
#include "tessera/mesh/realize.h"
#include "tessera/model/llama_units.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/compose.h"
#include "tests/testkit/live_memory.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kHeads = 8;
constexpr int64_t kSize = 64;
constexpr int64_t kLength = 4096;
constexpr int64_t kMemoryLength = 32768;
constexpr int kWarmUps = 1;
constexpr int kSteps = 5;

// Of all threads of this process.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + kSteps / 2);
  return values[kSteps / 2];
}

// Wall-clock time, and the CPU time of a rank, for machines that do other work as well; the slowest
// rank counts.
void measure(const World& world, const std::string& name, Json& figures,
             const std::function<void()>& body) {
  std::vector<double> times;
  std::vector<double> cpu;
  for (int step = -kWarmUps; step < kSteps; ++step) {
    barrier(world.group());
    const double cpu_start = cpu_seconds();
    const double start = bench::now();
    body();
    const double seconds = bench::now() - start;
    const double own_cpu = cpu_seconds() - cpu_start;
    const double slowest = bench::slowest_rank(seconds, world);
    const double busiest = bench::slowest_rank(own_cpu, world);
    if (step < 0) continue;
    times.push_back(slowest * 1e3);
    cpu.push_back(busiest * 1e3);
  }
  figures[name + "_ms"] = median(times);
  figures[name + "_cpu_ms"] = median(cpu);
}

RealizedPlan groups_of(const World& world) {
  return realize(train_plan(world.size(), {.cp = world.size()}), world);
}

struct Heads {
  explicit Heads(int64_t positions)
      : q(make(positions)), k(make(positions)), v(make(positions)), gradient(make(positions)) {
    for (const at::Tensor& x : {q, k, v}) x.requires_grad_();
  }
  static at::Tensor make(int64_t positions) { return at::randn({1, positions, kHeads, kSize}); }

  at::Tensor q, k, v, gradient;
};

Json attention(const LaunchInfo& launch, int threads) {
  at::set_num_threads(threads);
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const RealizedPlan plan = groups_of(world);
  const Heads heads(kLength / world.size());
  Json figures{{"ranks", world.size()}, {"threads", threads}};
  for (const char* const type : {"ring", "all-gather", "ulysses"}) {
    const ContextParallel context({plan.group("cp")}, {.type = type});
    measure(world, type, figures, [&] {
      causal_attention(heads.q, heads.k, heads.v, {.context = &context}).backward(heads.gradient);
    });
  }
  world.close();
  return figures;
}

void pass_on(const World& world, const at::Tensor& own) {
  const int64_t size = world.size();
  const int64_t rank = world.rank().value;
  const at::Tensor received = at::empty_like(own);
  (void)batch_send_recv(
      std::array{P2p{P2p::Kind::kSend, own, GlobalRank{(rank + 1) % size}},
                 P2p{P2p::Kind::kRecv, received, GlobalRank{(rank + size - 1) % size}}},
      world.group())
      .wait();
}

Json overlap(const LaunchInfo& launch) {
  at::set_num_threads(1);
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const RealizedPlan plan = groups_of(world);
  const Heads heads(kLength / world.size());
  const ContextParallel context({plan.group("cp")}, {.type = "ring"});
  const ContextLayout layout = ContextLayout::head_tail(kLength, world.size());
  const at::NoGradGuard no_grad;
  const auto products = [&] {
    AttentionSum sum(heads.q.transpose(1, 2));
    for (int64_t from = 0; from < world.size(); ++from) {
      AttentionBlocks blocks;
      add_causal_blocks(blocks, {0, 1}, layout.positions(world.rank().value),
                        layout.positions(from));
      sum.add(heads.k.transpose(1, 2), heads.v.transpose(1, 2), blocks);
    }
  };
  const at::Tensor both = at::stack({heads.k, heads.v});
  const auto exchange = [&] {
    for (int64_t step = 1; step < world.size(); ++step) pass_on(world, both);
  };
  Json figures{{"ranks", world.size()}};
  measure(world, "ring", figures,
          [&] { causal_attention(heads.q, heads.k, heads.v, {.context = &context}); });
  measure(world, "products", figures, products);
  measure(world, "exchange", figures, exchange);
  world.close();
  return figures;
}

// The most bytes of live tensors during a step, beyond those before it and the gradients.
Json memory(const LaunchInfo& launch) {
  at::set_num_threads(1);
  auto& live = testkit::LiveMemory::watch();
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const LlamaConfig config{.vocab_size = 256,
                           .hidden_size = 64,
                           .intermediate_size = 192,
                           .num_hidden_layers = 1,
                           .num_attention_heads = 1,
                           .num_key_value_heads = 1,
                           .head_dim = 64};
  Model model = llama_model(config);
  model.fill = [config](const Parameters& parameters) { fill_llama(parameters, config, 1); };
  Engine engine = compose(model, groups_of(world), {});
  const at::Tensor tokens = at::randint(256, {1, kMemoryLength}, at::kLong);
  const int64_t before = live.bytes();
  live.reset_peak();
  const double start = bench::now();
  (void)engine.train_step(tokens, tokens);
  const int64_t peak = live.peak() - before;
  const Json figures{{"ranks", world.size()},
                     {"activations_mb", static_cast<double>(peak) / 1e6},
                     {"step_s", bench::now() - start}};
  world.close();
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  using tessera::LaunchInfo;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return tessera::bench::rank_main(
      {arguments, static_cast<size_t>(count)},
      {{"attention", [](const LaunchInfo& launch) { return tessera::attention(launch, 1); }},
       {"threads", [cores](const LaunchInfo& launch) { return tessera::attention(launch, cores); }},
       {"overlap", tessera::overlap},
       {"memory", tessera::memory}});
}
