#include "tessera/comm/internal/engine_error.h"

#include <c10/util/Exception.h>

namespace tessera::comm::detail {

std::string engine_words(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string words = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  // Errors of the network carry the stack in their text.
  words.erase(std::min(words.find("\nException raised from"), words.size()));
  while (!words.empty() && (words.back() == '\n' || words.back() == '.')) words.pop_back();
  return words;
}

}  // namespace tessera::comm::detail
