#pragma once

#include <stdexcept>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Root of everything that Tessera throws. docs/errors.md says who should act on which kind.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value that the caller chose is wrong. The message names the value, the rule and the fix.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A call was made too early, too late or twice. The message names the call that must come first.
class StateError : public Error {
 public:
  using Error::Error;
};

/// A peer or the network failed, or the ranks disagree.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A file, its format or the operating system failed. Existing files are not damaged.
class DataError : public Error {
 public:
  using Error::Error;
};

/// A computation gave a non-finite value.
class NumericError : public Error {
 public:
  using Error::Error;
};

/// A bug in Tessera itself.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
