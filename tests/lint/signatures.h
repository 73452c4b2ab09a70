#pragma once

#include <optional>
#include <string>
#include <vector>

/// A small reader of declarations in this project's own style. It is no C++ parser: it knows
/// functions, constructors and the fields of structs, in code without comments and macros.
namespace tessera::lint {

struct Parameter {
  std::string type;
  std::string name;
  std::optional<std::string> value = std::nullopt;  // The default.
};
using Parameters = std::vector<Parameter>;

/// The parameters of every function or constructor of this name, one list per overload.
std::vector<Parameters> overloads_of(const std::string& code, const std::string& name);

/// The fields of a struct in their order, as parameters; none where there is no such struct.
Parameters fields_of(const std::string& code, const std::string& name);

}  // namespace tessera::lint
