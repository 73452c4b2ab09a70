#pragma once

// LibTorch has Gloo inside but ships none of its headers, which ProcessGroupGloo.hpp includes.
// These five files declare what that header names; everything is defined in libtorch_cpu. They are
// on the include path of one source file alone.
#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
