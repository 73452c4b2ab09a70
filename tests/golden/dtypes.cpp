#include "tests/golden/dtypes.h"

#include "tests/golden/golden.h"

namespace tessera::golden {

c10::ScalarType dtype_named(const std::string& name) {
  const std::string prefix = "torch.";
  const std::string bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  return known(c10::getStringToDtypeMap(), "dtype", bare);
}

std::string name_of(c10::ScalarType dtype) {
  return std::string(c10::getDtypeNames(dtype).first);
}

}  // namespace tessera::golden
