#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Operations of one communicator match by the order in which they are issued. Operations that may
/// run concurrently therefore use different lanes, each with its own communicator.
enum class Lane { kCompute, kGather, kReduce, kP2p, kControl };

/// The lane's name.
const char* to_string(Lane lane);

}  // namespace tessera
