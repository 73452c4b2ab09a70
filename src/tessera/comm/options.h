#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/lane.h"
#include "tessera/plan/nccl_options.h"

namespace tessera TSR_API {

enum class Backend {
  kAuto,  // NCCL if every rank has a GPU of its own, otherwise Gloo.
  kGloo,
  kNccl,
  kFake,  // One process acts as one rank of many: collectives return at once with the right shapes.
};

const char* to_string(Backend backend);

struct GroupOptions {
  std::string name = "";  // For messages; not part of what makes groups equal.
  Lane lane = Lane::kCompute;
  Backend backend = Backend::kAuto;                                 // kAuto: as the world's.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // The world's, unless set.
  NcclOptions nccl = {};
  bool sharp = false;  // On NCCL: made while NCCL_COLLNET_ENABLE=1 is set.
  /// A communicator that no other group shares. All members make such groups of equal ranks in one
  /// order.
  bool own = false;
};

struct WorldOptions {
  Backend backend = Backend::kAuto;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // Of every blocking call.
  /// How long ranks wait for each other at the start, where that is less than the timeout.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(10);
  /// How long a rank may give no sign of life before others that wait for it count it as lost.
  /// TESSERA_SILENCE_SECONDS wins: set it high before stopping a rank in a debugger.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
};

}  // namespace tessera
