#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/terminal_text.h"

namespace tessera::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool obeys_escapes(int descriptor) {
  return isatty(descriptor) == 1 && variable("TERM") != "dumb";
}

ColorMode color_mode(std::string_view choice, int descriptor) {
  const bool wanted = obeys_escapes(descriptor) && variable("NO_COLOR").empty();
  if (choice == "never" || (choice == "auto" && !wanted)) return ColorMode::kNone;
  const std::string depth = variable("COLORTERM");
  return depth == "truecolor" || depth == "24bit" ? ColorMode::kTrueColor : ColorMode::k256;
}

int64_t terminal_width(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 120;
}

/// Sits between a stream and its buffer. Each text consists of whole characters.
class PlainStreams::Filter final : public std::streambuf {
 public:
  explicit Filter(std::ostream& stream) : stream_(stream), to_(stream.rdbuf(this)) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() override { stream_.rdbuf(to_); }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::string plain = to_ascii({text, static_cast<size_t>(size)});
    const auto wanted = static_cast<std::streamsize>(plain.size());
    return to_->sputn(plain.data(), wanted) == wanted ? size : 0;
  }
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    return traits_type::eq_int_type(c, traits_type::eof()) || xsputn(&byte, 1) == 1
               ? traits_type::not_eof(c)
               : traits_type::eof();
  }
  int sync() override { return to_->pubsync(); }

 private:
  std::ostream& stream_;
  std::streambuf* to_;
};

PlainStreams::PlainStreams() {
  data_out();  // Saves the original buffer before a filter replaces it.
  if (speaks_utf8(process_environment())) return;
  out_ = std::make_unique<Filter>(std::cout);
  err_ = std::make_unique<Filter>(std::cerr);
}

PlainStreams::~PlainStreams() = default;

std::ostream& data_out() {
  static std::ostream out(std::cout.rdbuf());
  return out;
}

}  // namespace tessera::cli
