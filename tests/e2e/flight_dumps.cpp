// flight_dumps SCENARIO FOLDER: writes FOLDER/rank_R.json, the dumps of four ranks of a run that
// went well ("good") or in which something is wrong ("behind", "mismatch", "message"); "forgetful"
// and "forgetful-behind" are those of recorders that keep little.
#include <fstream>
#include <iostream>

#include "tests/testkit/flight.h"

namespace {

using tessera::FlightTensor;
using tessera::testkit::FlightRun;
constexpr auto kPending = FlightRun::End::kPending;

const std::vector<int64_t> kAll{0, 1, 2, 3};
const FlightTensor kGrad{{1024, 8}, "Float"};
const FlightTensor kActivation{{4, 128}, "BFloat16"};

FlightTensor floats(int64_t size) {
  return {{size}, "Float"};
}

// Every collective, even and uneven.
void one_of_each(FlightRun& run) {
  const FlightRun::Tensors none;
  run.collective("world", "broadcast", kAll, kGrad);
  run.collective("world", "reduce", kAll, kGrad);
  run.collective("world", "all_gather", kAll, {floats(2)}, {floats(8)});
  run.collective("world", "reduce_scatter", kAll, {floats(8)}, {floats(2)});
  run.collective("world", "all_to_all", kAll, {floats(8)}, {floats(8)});
  run.collective("world", "all_reduce_coalesced", kAll, {floats(3), floats(4)},
                 {floats(3), floats(4)});
  run.collective("world", "all_gather_coalesced", kAll, {floats(3), floats(4)},
                 {floats(12), floats(16)});
  run.collective("world", "reduce_scatter_coalesced", kAll, {floats(12), floats(16)},
                 {floats(3), floats(4)});
  const FlightRun::Tensors pieces{floats(1), floats(3), floats(2), floats(2)};
  for (const int64_t rank : kAll) {
    run.collective("world", "all_gather", {rank}, {pieces[static_cast<size_t>(rank)]}, pieces);
  }
  for (const int64_t rank : kAll) {
    run.collective("world", "reduce_scatter", {rank}, {floats(8)},
                   {pieces[static_cast<size_t>(rank)]});
  }
  for (const int64_t rank : kAll) {
    run.collective("world", "gather", {rank}, {floats(2)},
                   rank == 0 ? FlightRun::Tensors(4, floats(2)) : none);
  }
  for (const int64_t rank : kAll) {
    run.collective("world", "scatter", {rank}, rank == 0 ? FlightRun::Tensors(4, floats(2)) : none,
                   {floats(2)});
  }
}

// Two stages of two ranks: collectives of several groups, and messages between the stages.
FlightRun good() {
  FlightRun run(4);
  run.add_group("world", kAll);
  run.add_group("dp", {0, 1});
  run.add_group("dp", {2, 3});
  run.add_group("pp", {2, 0});
  run.add_group("pp", {3, 1});
  run.barrier("world", kAll);
  one_of_each(run);
  for (int step = 0; step < 5; ++step) {
    for (const int64_t rank : {0, 1}) {
      run.send("pp", rank, rank + 2, kActivation);
      run.recv("pp", rank + 2, rank, kActivation);
      run.send("pp", rank + 2, rank, kActivation);
      run.recv("pp", rank, rank + 2, kActivation);
    }
    run.collective("dp", "all_reduce", kAll, kGrad);
    run.collective("world", "all_reduce", kAll, {{}, "Float"});
  }
  return run;
}

// Each rank remembers another part of the end; ranks 0 and 2 have forgotten their messages.
void forget(FlightRun& run) {
  run.keep_last(0, 2);
  run.keep_last(1, 14);
  run.keep_last(2, 1);
  run.keep_last(3, 9);
}

FlightRun scenario(const std::string& name) {
  FlightRun run = good();
  if (name == "behind" || name == "forgetful-behind") {
    run.collective("dp", "all_reduce", {0, 1, 3}, kGrad, kPending);
  } else if (name == "mismatch") {
    run.collective("world", "all_reduce", {0, 1, 3}, kGrad, kPending);
    run.collective("world", "all_reduce", {2}, {{512, 8}, "Float"}, kPending);
  } else if (name == "message") {
    run.recv("pp", 2, 0, kActivation, kPending);
  }
  if (name.starts_with("forgetful")) forget(run);
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (const tessera::FlightDump& dump : scenario(argv[1]).dumps()) {
    std::ofstream file(tessera::concat(argv[2], "/rank_", dump.rank, ".json"));
    file << tessera::to_json(dump);
    if (!file.flush()) {
      std::cerr << "cannot write to " << argv[2] << "\n";
      return 1;
    }
  }
}
