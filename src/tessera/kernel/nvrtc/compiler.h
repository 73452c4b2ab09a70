#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::kernel::detail {

/// Shared libraries, opened by name; those that are not there are left out.
class Libraries {
 public:
  explicit Libraries(const std::vector<std::string>& names);

  /// A function of the first library that has it. StateError if none has.
  template <class Function>
  void bind(const char* name, Function& to) const {
    to = reinterpret_cast<Function>(find(name));
  }

 private:
  void* find(const char* name) const;

  std::vector<void*> opened_;
};

/// NVRTC, which compiles CUDA C++. Its header belongs to a toolkit, which LibTorch does not need.
class Compiler {
 public:
  explicit Compiler(const Libraries& libraries);

  /// What NVRTC made.
  struct Result {
    std::vector<char> binary;
    std::string log;
  };

  /// Compiles for cards of a generation, e.g. 90 for an H200. `flags` are several, with spaces in
  /// between. StateError with the compiler's words if it refuses.
  Result compile(const std::string& name, const std::string& source, int generation,
                 const std::string& flags) const;

 private:
  using Program = struct ProgramTag*;

  std::string log_of(Program program) const;

  int (*create_)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile_)(Program, int, const char* const*);
  int (*destroy_)(Program*);
  int (*log_size_)(Program, size_t*);
  int (*log_)(Program, char*);
  int (*binary_size_)(Program, size_t*);
  int (*binary_)(Program, char*);
};

}  // namespace tessera::kernel::detail
