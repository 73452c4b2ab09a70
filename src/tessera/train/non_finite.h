#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

class Engine;

/// **Collective.** Where the last training step, whose loss was `loss`, became non-finite: "the
/// loss of rank 3 is nan", or the first rank and its parameters with non-finite gradients. The same
/// on all ranks. For the error of a run that ends; it reads every gradient.
std::string first_non_finite(const Engine& engine, double loss);

}  // namespace tessera
