#include "cli/version.h"

namespace tessera::cli {

std::string version_text() {
  return "tessera " TESSERA_VERSION "\n";
}

}  // namespace tessera::cli
