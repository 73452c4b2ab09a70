#pragma once

#include <cstdlib>

namespace tessera::testkit {

/// Sets an environment variable of this process and its children until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace tessera::testkit
