#include "tessera/base/error_words.h"

#include <algorithm>
#include <new>
#include <optional>
#include <system_error>

#include "tessera/base/environment.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr const char* kLessMemory =
    "; choose smaller sizes, e.g. a smaller batch, or provide more memory";

std::string without_stack(std::string words) {
  for (const char* start : {"\nException raised from", "\nframe #"}) {
    words.erase(std::min(words.find(start), words.size()));
  }
  return words;
}

// The text between two texts.
std::optional<std::string> between(std::string_view words, std::string_view before,
                                   std::string_view after) {
  const size_t start = words.find(before);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view rest = words.substr(start + before.size());
  return std::string(rest.substr(0, rest.find(after)));
}

// LibTorch's allocators have their own exception class for GPUs, but a common one for the host,
// which only the text tells apart.
std::optional<std::string> memory_words(const std::exception& error) {
  const std::string_view words = error.what();
  if (const auto bytes = between(words, "you tried to allocate ", " bytes")) {
    return concat("out of memory: ", with_thousands(to_integer(*bytes).value_or(0)),
                  " bytes could not be allocated", kLessMemory);
  }
  if (words.starts_with("CUDA out of memory")) {
    const auto size = between(words, "Tried to allocate ", ". ");
    const auto gpu = between(words, ". GPU ", ". ");
    return concat("out of GPU memory: ", size.value_or("a tensor"), " could not be allocated",
                  gpu ? concat(" (GPU ", *gpu, ")") : "", kLessMemory);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return concat("out of memory", kLessMemory);
  }
  return std::nullopt;
}

bool lacks_threads(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace

bool wants_backtrace() {
  return process_environment()("TESSERA_BACKTRACE") == "1";
}

std::string error_words(const std::exception& error) {
  if (wants_backtrace()) return error.what();
  if (const auto words = memory_words(error)) return *words;
  if (lacks_threads(error)) {
    return concat("the system cannot start another thread (", error.what(),
                  "); choose fewer threads or ranks, or raise the limit (ulimit -u)");
  }
  return without_stack(error.what());
}

}  // namespace tessera
