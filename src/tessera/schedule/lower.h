#pragma once

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// When a receive is posted.
enum class Receives {
  kEarly,     // As soon as its sender has sent.
  kDeferred,  // Just before it is needed; sends must then not wait for it (SendMode::kPosted).
};

struct LowerOptions {
  Receives receives = Receives::kEarly;
  bool messages_only = false;  // Without gathers, frees and reductions.
};

/// The table that a rank executes: sends and receives, gathers and frees of parameters and the
/// reduction of gradients added to a compute table, idle slots dropped. ConfigError where the table
/// is not compute-only, or cannot be scheduled: then with the cycle of who waits for whom.
Schedule lower(const Schedule& compute, const LowerOptions& options = {});

/// The form in which GPipe and 1F1B run: a receive before its use, a send after its making, the
/// reduction of gradients at the end. With `fused`, a send that meets a receive from the same rank
/// is one batch with it: 1F1B would deadlock otherwise.
Schedule lower_in_step(const Schedule& compute, bool fused);

/// The compute table with REDUCE_GRAD after each stage's last B or W.
Schedule with_reduce_grad(const Schedule& compute);

/// The compute table without idle slots, adjacent I and W of one microbatch folded into B.
Schedule merge_backward(const Schedule& compute);

}  // namespace tessera
