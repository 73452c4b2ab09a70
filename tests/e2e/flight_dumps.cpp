// flight_dumps SCENARIO FOLDER: writes FOLDER/rank_R.json, the dumps of four ranks of a run that
// went well ("good") or in which something is wrong ("behind", "mismatch", "message").
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

// Two stages of two ranks: collectives of several groups, and messages between the stages.
FlightRun good() {
  FlightRun run(4);
  run.add_group("world", kAll);
  run.add_group("dp", {0, 1});
  run.add_group("dp", {2, 3});
  run.add_group("pp", {2, 0});
  run.add_group("pp", {3, 1});
  run.collective("world", "barrier", kAll, {});
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

FlightRun scenario(const std::string& name) {
  FlightRun run = good();
  if (name == "behind") {
    run.collective("dp", "all_reduce", {0, 1, 3}, kGrad, kPending);
  } else if (name == "mismatch") {
    run.collective("world", "all_reduce", {0, 1, 3}, kGrad, kPending);
    run.collective("world", "all_reduce", {2}, {{512, 8}, "Float"}, kPending);
  } else if (name == "message") {
    run.recv("pp", 2, 0, kActivation, kPending);
  }
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
