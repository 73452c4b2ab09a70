#include "tests/golden/surroundings.h"

#include <unistd.h>

#include <cstdlib>

#include "tessera/comm/world.h"

namespace tessera::golden {

Variables all_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return variables;
}

Surroundings::Surroundings(const Json& variables) : before_(all_variables()) {
  World::clear_current();
  clearenv();
  for (const auto& [name, value] : variables.items()) {
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
}

Surroundings::~Surroundings() {
  World::clear_current();
  clearenv();
  for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace tessera::golden
