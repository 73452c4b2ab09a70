#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tessera/comm/internal/operation.h"

namespace tessera {

/// Checked mode: **collective.** Before anything is sent the members tell each other what they are
/// about to do; where that differs, all of them throw the same CommError, which says who called
/// what.
void compare_calls(const Call& call, const PendingOperation& operation);

/// What goes ahead of a message in checked mode, and what the receiver says of it: a row of bytes
/// of one length.
at::Tensor header_of(const at::Tensor& tensor);
/// Throws CommError, and tells all ranks, where the sender's header does not fit the tensor.
void compare_header(const at::Tensor& header, const at::Tensor& tensor, GroupRank sender,
                    const PendingOperation& operation);

}  // namespace tessera
