#pragma once

#include <string>
#include <vector>

namespace tessera::lint {

/// A type or alias that a file defines at namespace scope.
struct Definition {
  std::string name;  // Qualified: "tessera::comm::detail::Engine".
  std::string file;
};

/// The definitions of a source text, without those in unnamed namespaces.
std::vector<Definition> definitions_in(const std::string& text, const std::string& file);

/// "tessera::Engine is defined in comm/engine.h and in train/engine.h", one line per name that
/// several files define.
std::vector<std::string> defined_twice(const std::vector<Definition>& definitions);

}  // namespace tessera::lint
