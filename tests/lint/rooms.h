#pragma once

#include <array>
#include <string_view>

namespace tessera::lint {

/// The rooms in the order in which they may use each other: each includes from itself and from
/// those before it. docs/architecture.md says what each is for.
inline constexpr std::array<std::string_view, 24> kRooms{
    "base",  "topology", "plan",  "schedule", "format",     "draw",   "launch",   "data",
    "text",  "config",   "run",   "comm",     "mesh",       "tensor", "hook",     "kernel",
    "layer", "parallel", "optim", "model",    "checkpoint", "train",  "generate", "dialect"};

/// The first room that may include torch.
inline constexpr std::string_view kFirstTorchRoom = "comm";

}  // namespace tessera::lint
