#include "cli/generate/codec.h"

#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

constexpr int64_t kBytes = 256;

class ByteCodec final : public Codec {
 public:
  std::vector<int64_t> encode(const std::string& text) const override {
    std::vector<int64_t> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }

  std::unique_ptr<Stream> stream(std::span<const int64_t>) const override {
    return std::make_unique<ByteStream>();
  }

 private:
  /// Whole characters only: a terminal would take their bytes one by one for something else.
  class ByteStream final : public Stream {
   public:
    std::string push(int64_t token) override {
      const auto byte = static_cast<unsigned char>(token);
      if ((byte & 0xC0U) != 0x80U)
        missing_ = bytes_after(byte);  // A new character.
      else
        --missing_;
      text_ += static_cast<char>(byte);
      return missing_ > 0 ? "" : std::exchange(text_, "");
    }
    std::string finish() override { return std::exchange(text_, ""); }

   private:
    static int bytes_after(unsigned char first) {
      return first < 0xC0U ? 0 : first < 0xE0U ? 1 : first < 0xF0U ? 2 : 3;
    }

    std::string text_;
    int missing_ = 0;  // Bytes until the character is complete.
  };
};

}  // namespace

std::unique_ptr<Codec> find_codec(const std::string& folder, int64_t vocab_size) {
  if (std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json")) {
    return tokenizer_codec(folder, vocab_size);
  }
  if (vocab_size == kBytes) return std::make_unique<ByteCodec>();
  throw DataError(concat(folder, " has no tokenizer.json, and a vocabulary of ", vocab_size,
                         " is not that of bytes; give --tokenizer DIR, or --prompt-ids and --ids"));
}

}  // namespace tessera::cli
