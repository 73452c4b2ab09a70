#pragma once

/// For headers that only name it; CLI11's own takes long to compile.
namespace CLI {
class App;
}  // namespace CLI
