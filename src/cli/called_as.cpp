#include "cli/called_as.h"

#include <cstdlib>

#include "tessera/base/shell.h"

namespace tessera::cli {

std::string called_as() {
  const char* const wrapper = std::getenv("TESSERA_WRAPPER");
  return wrapper == nullptr || *wrapper == '\0' ? "tessera" : shell_word(wrapper);
}

}  // namespace tessera::cli
