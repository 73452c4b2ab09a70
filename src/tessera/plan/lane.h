#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Operations of one communicator match by the order in which they arrive, so what may run side by
/// side has a lane, and thereby a communicator, of its own.
enum class Lane { kCompute, kGather, kReduce, kP2p, kControl };

const char* to_string(Lane lane);

}  // namespace tessera
