#include "tessera/text/token_cache.h"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/file_lock.h"
#include "tessera/base/read_file.h"
#include "tessera/data/token_source.h"
#include "tessera/text/internal/documents.h"
#include "tessera/text/model_tokens.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "1";  // Another number if the same files give other tokens.
constexpr size_t kMostBytes = size_t{256} << 20U;  // Of one file of the tokenizer.

/// FNV-1a of a list of texts.
class Fingerprint {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);  // So that {"ab", "c"} and {"a", "bc"} differ.
  }
  std::string text() const {
    std::ostringstream digits;
    digits << std::hex << std::setw(16) << std::setfill('0') << hash_;
    return digits.str();
  }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }
  uint64_t hash_ = 0xcbf29ce484222325U;
};

// The same from every working folder.
std::string whole_path(const std::string& path) {
  return fs::weakly_canonical(path);
}

bool is_u16(int64_t vocab_size) {
  return vocab_size - 1 <= std::numeric_limits<uint16_t>::max();
}

std::string file_name(const std::string& text) {
  const fs::path path = whole_path(text);
  return path.has_stem() ? path.stem().string() : "texts";
}

void add_tokenizer(const std::string& folder, Fingerprint& to) {
  constexpr std::array kFiles{"tokenizer.json", "config.json", "tokenizer_config.json",
                              "generation_config.json"};
  for (const char* const name : kFiles) {
    const fs::path path = fs::path(folder) / name;
    to.add(fs::exists(path) ? read_file(path, kMostBytes) : "");
  }
}

ModelTokens model_tokens(const TokenCache& cache, const Tokenizer& tokenizer) {
  tokenizer.check_vocabulary(cache.vocab_size);
  ModelTokens tokens = read_model_tokens(cache.tokenizer, tokenizer);
  TSR_CHECK(!tokens.ends.empty(), "none of config.json, tokenizer_config.json and ",
            "generation_config.json in ", cache.tokenizer, " names the token that ends a text; ",
            "encode the texts by tessera tokenize --eos TOKEN, and train on its output");
  return tokens;
}

// Refuses files of numbers.
void check_text(const std::string& path) {
  if (fs::is_directory(path)) return;
  const TokenSource opened(path);
}

/// Holds the folder alone.
Descriptor lock_folder(const std::string& folder, const std::function<void()>& wait) {
  Descriptor locked = checked(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                              concat("cannot open ", folder));
  if (lock_file(locked, folder)) return locked;
  if (wait) wait();
  while (flock(locked.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw_system_error("cannot lock " + folder);
  }
  return locked;
}

}  // namespace

std::string TokenCache::path_of(const std::string& text) const {
  Fingerprint fingerprint;
  fingerprint.add(kFormat);
  add_tokenizer(tokenizer, fingerprint);
  for (const auto& document : text::detail::list_documents({whole_path(text)})) {
    fingerprint.add(document.path);
    fingerprint.add(concat(document.bytes, " ", document.changed));
  }
  return fs::path(folder) /
         concat(file_name(text), "-", fingerprint.text(), is_u16(vocab_size) ? ".bin" : ".u32");
}

std::optional<TokenizeProgress> TokenCache::make(const std::string& text, int64_t threads,
                                                 const TokenCacheCallbacks& callbacks) const {
  check_text(text);
  const std::string path = path_of(text);
  if (fs::exists(path)) return std::nullopt;
  const Tokenizer words = Tokenizer::read(tokenizer);
  const ModelTokens model = model_tokens(*this, words);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(concat("cannot create ", folder, ": ", error.message()));
  const Descriptor locked = lock_folder(folder, callbacks.wait);
  if (fs::exists(path)) return std::nullopt;  // By the one that was waited for.
  return tokenize_files(words,
                        {.inputs = {whole_path(text)},
                         .output = path,
                         .dtype = is_u16(vocab_size) ? DType::kU16 : DType::kU32,
                         .end = model.ends.front(),
                         .threads = threads},
                        callbacks.show);
}

int64_t TokenCache::document_end() const {
  return model_tokens(*this, Tokenizer::read(tokenizer)).ends.front();
}

}  // namespace tessera
