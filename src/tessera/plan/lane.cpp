#include "tessera/plan/lane.h"

namespace tessera {

const char* to_string(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kGather:
      return "gather";
    case Lane::kReduce:
      return "reduce";
    case Lane::kP2p:
      return "p2p";
    case Lane::kControl:
      return "control";
  }
  return "?";
}

}  // namespace tessera
