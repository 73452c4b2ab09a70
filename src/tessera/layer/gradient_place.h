#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

/// For functions whose gradient may take the place of their input, which saves its memory.
namespace tessera TSR_API {

/// The vectors of x as the rows of a contiguous matrix, as a tensor that autograd does not know:
/// its views would hold x. Keep it in AutogradContext::saved_data, since saved variables would
/// count as readers.
at::Tensor rows_below_autograd(const at::Tensor& x);

/// In the backward pass, where the gradient of those rows may be written: in their place if nothing
/// else can read them any more, otherwise in memory of its own.
at::Tensor gradient_place(const at::Tensor& rows);

}  // namespace tessera
