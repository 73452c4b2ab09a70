#pragma once

/// A forward declaration for headers; CLI11's own header takes long to compile.
namespace CLI {
class App;
}  // namespace CLI
