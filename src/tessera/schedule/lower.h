#pragma once

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// When receives are posted.
enum class Receives {
  kEarly,     // As soon as the sender sends.
  kDeferred,  // Just before it is needed; sends must then not wait for it (SendMode::kPosted).
};

/// Which communication is added, and when.
struct LowerOptions {
  Receives receives = Receives::kEarly;  // kDeferred makes the sends posted.
  bool messages_only = false;            // No UNSHARD, RESHARD and REDUCE_GRAD.
};

/// The table that ranks execute: adds sends, receives, UNSHARD, RESHARD and REDUCE_GRAD to a
/// compute table and drops idle slots. ConfigError if the table is not compute-only, or if it would
/// deadlock, with the cycle of ranks that wait for each other.
Schedule lower(const Schedule& compute, const LowerOptions& options = {});

/// The form in which GPipe and 1F1B run: a receive directly before its use, a send directly after
/// its result, and REDUCE_GRAD at the end. With `fused`, a send next to a receive from the same
/// rank forms one batch with it, without which 1F1B would deadlock.
Schedule lower_in_step(const Schedule& compute, bool fused);

/// The compute table with REDUCE_GRAD after each stage's last B or W.
Schedule with_reduce_grad(const Schedule& compute);

/// The compute table without idle slots, with adjacent I and W of one microbatch merged into B.
Schedule merge_backward(const Schedule& compute);

}  // namespace tessera
