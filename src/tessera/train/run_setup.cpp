#include "tessera/train/run_setup.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tessera/base/environment.h"
#include "tessera/comm/launch_info.h"
#include "tessera/train/texts.h"
#include "tessera/train/train_model.h"

namespace tessera {

void set_threads(const TrainConfig& config) {
  int64_t threads = config.train.threads;
  if (threads == 0 && config.parallel.nproc > 1) {
    const int64_t ranks = read_launch_info(process_environment()).local_world_size;
    threads = std::max<int64_t>(1, std::thread::hardware_concurrency() / ranks);
  }
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

World connect_ranks(const TrainConfig& config) {
  // On GPUs: NCCL if every rank has its own GPU.
  const bool cpu = config.train.device == "cpu";
  return World::connect({.backend = cpu ? Backend::kGloo : Backend::kAuto,
                         .timeout = std::chrono::seconds(config.run.timeout)});
}

TokenData open_data(const TrainConfig& config) {
  TokenData data({.paths = token_paths(config),
                  .weights = config.data.weights,
                  .kind = parse_token_kind(config.data.kind)});
  data.check_vocabulary(shape_of(config.model).vocab_size);
  return data;
}

}  // namespace tessera
