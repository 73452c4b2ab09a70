#pragma once

#include <map>
#include <string>

#include "tests/golden/golden.h"

namespace tessera::golden {

using Variables = std::map<std::string, std::string>;

/// The variables of this process.
Variables all_variables();

/// Exactly these variables and no current world, until the end of the scope.
class Surroundings {
 public:
  explicit Surroundings(const Json& variables);
  ~Surroundings();
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

 private:
  Variables before_;
};

}  // namespace tessera::golden
