#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A value of a pickle. Reading one never runs anything: objects become records of what the pickle
/// says about them.
struct PickleValue {
  /// Python's types. kGlobal: a class or function by name. kRecord: an object, or the result of a
  /// function, as the call that would make it.
  enum class Kind { kNone, kBool, kInteger, kFloat, kText, kTuple, kList, kDict, kGlobal, kRecord };

  Kind kind = Kind::kNone;  // Which of the fields below are set.
  int64_t integer = 0;      // Of kBool, too.
  double number = 0;        // Of kFloat.
  /// Of kText; "module.name" of kGlobal, and of the class or function of kRecord.
  std::string text{};
  /// The elements; keys and values in turn of kDict; of kRecord the arguments (a tuple) and, if the
  /// pickle sets it, the state.
  std::vector<PickleValue> items{};
  int64_t nodes = 1;  // Values in it, itself included.
  int64_t depth = 1;  // Levels of nesting, itself included.

  /// The value of a text key of a kDict; null if there is none.
  const PickleValue* find(std::string_view key) const;
};

/// Reads a pickle of protocol 2 to 4. `allows` decides about the classes and functions that it
/// names, as "module.name"; the persistent ids of PyTorch are records "persistent id". DataError
/// with the offset for anything malformed, not allowed, too deep, too large, or rare enough that it
/// is not read here, e.g. containers that contain themselves.
PickleValue parse_pickle(std::span<const std::byte> bytes, std::string_view origin,
                         const std::function<bool(std::string_view)>& allows);

}  // namespace tessera
