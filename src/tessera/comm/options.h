#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/lane.h"
#include "tessera/plan/nccl_options.h"

namespace tessera TSR_API {

/// The library that moves the bytes.
enum class Backend {
  kAuto,  // NCCL if every rank has a GPU of its own, otherwise Gloo.
  kGloo,
  kNccl,
  kFake,  // One process simulates one rank: collectives return at once, with the right shapes.
};

/// The back end's name, e.g. "gloo".
const char* to_string(Backend backend);

/// How a group communicates.
struct GroupOptions {
  std::string name = "";  // For error messages; ignored when groups are compared.
  /// Each lane has its own communicators.
  Lane lane = Lane::kCompute;
  Backend backend = Backend::kAuto;                                 // kAuto: that of the world.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // Default: that of the world.
  NcclOptions nccl = {};                                            // Ignored by other back ends.
  bool sharp = false;  // With NCCL: create it while NCCL_COLLNET_ENABLE=1 is set.
  /// With NCCL and TESSERA_NCCL_SPLIT=1: split its communicator from that of all ranks, in which
  /// all of them take part. So all ranks of the world must make such groups in the same order, each
  /// rank as a member of exactly one at a time.
  bool split = false;
  /// Use a communicator of its own, which no other group shares. All members must make such groups
  /// of equal ranks in the same order.
  bool own = false;
};

/// How a world connects.
struct WorldOptions {
  Backend backend = Backend::kAuto;  // Of groups that do not choose one.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // Of every blocking call.
  /// How long ranks wait for each other at the start, if that is less than `timeout`.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(10);
  /// A rank without a heartbeat for this long is lost for the ranks that wait for it.
  /// TESSERA_SILENCE_SECONDS overrides it: set a high value before you stop a rank in a debugger.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
};

}  // namespace tessera
