#include "tessera/format/npy.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Element {
  std::string_view descr;
  DType dtype;
};
constexpr std::array kElements{
    Element{"|b1", DType::kBool}, Element{"|u1", DType::kU8},  Element{"|i1", DType::kI8},
    Element{"<u2", DType::kU16},  Element{"<i2", DType::kI16}, Element{"<f2", DType::kF16},
    Element{"<u4", DType::kU32},  Element{"<i4", DType::kI32}, Element{"<f4", DType::kF32},
    Element{"<u8", DType::kU64},  Element{"<i8", DType::kI64}, Element{"<f8", DType::kF64},
    Element{"<c8", DType::kC64},
};

/// Parses the header, a Python dictionary such as
/// {'descr': '<u2', 'fortran_order': False, 'shape': (5,), }.
class Reader {
 public:
  Reader(std::string_view text, int64_t offset, std::string_view origin)
      : text_(text), offset_(offset), origin_(origin) {}

  NpyHeader header() {
    std::optional<DType> dtype;
    std::optional<bool> fortran;
    std::optional<std::vector<int64_t>> shape;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype) {
        dtype = element();
      } else if (key == "fortran_order" && !fortran) {
        fortran = boolean();
      } else if (key == "shape" && !shape) {
        shape = sizes();
      } else {
        refuse("the keys descr, fortran_order and shape, each once");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (!text_.empty()) refuse("nothing after the dictionary");
    if (!dtype || !fortran || !shape) refuse("the keys descr, fortran_order and shape");
    if (*fortran && shape->size() > 1)
      refuse("fortran_order False; convert with np.ascontiguousarray");
    return {.dtype = *dtype, .shape = std::move(*shape)};
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    throw DataError(concat(origin_, ": the header at offset ", offset_,
                           " does not describe an array; ", "expected ", expected));
  }

  void advance(size_t count) {
    text_.remove_prefix(count);
    offset_ += static_cast<int64_t>(count);
  }

  void skip_blanks() { advance(std::min(text_.find_first_not_of(" \n"), text_.size())); }

  bool take(char wanted) {
    skip_blanks();
    if (!text_.starts_with(wanted)) return false;
    advance(1);
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted)) refuse(std::string{'\'', wanted, '\''});
  }

  std::string_view quoted() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) refuse("a closing quote");
    const std::string_view word = text_.substr(0, end);
    advance(end + 1);
    return word;
  }

  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.starts_with(word)) continue;
      advance(word.size());
      return word == "True";
    }
    refuse("True or False");
  }

  DType element() {
    const std::string_view descr = quoted();
    for (const Element& known : kElements) {
      if (known.descr == descr) return known.dtype;
    }
    refuse("a descr of plain little-endian numbers, e.g. '<u2'");
  }

  int64_t size() {
    skip_blanks();
    const size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    const auto number = to_integer(text_.substr(0, digits));
    if (!number) refuse("a whole number of at least 0");
    advance(digits);
    return *number;
  }

  std::vector<int64_t> sizes() {
    std::vector<int64_t> shape;
    expect('(');
    while (!take(')')) {
      shape.push_back(size());
      if (!take(',')) {
        if (shape.size() == 1) refuse("',', without which (5) is a number in Python");
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  int64_t offset_;
  std::string_view origin_;
};

[[noreturn]] void refuse_file(std::string_view origin, std::string_view reason) {
  throw DataError(concat(origin, ": ", reason));
}

// The text of the header, after a length of two bytes in version 1 and four bytes later.
std::string_view header_text(std::span<const std::byte> file, std::string_view origin) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic))
    refuse_file(origin, "not a .npy file: '\\x93NUMPY' is not at offset 0");
  const size_t version_at = kMagic.size();
  const int version = text.size() > version_at ? text[version_at] : 0;
  if (version < 1 || version > 3) {
    refuse_file(origin,
                concat("version ", version, " of .npy at offset 6; supported are 1, 2 and 3"));
  }
  const size_t length_at = version_at + 2;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = length_at + length_bytes;
  uint32_t length = 0;
  if (text.size() >= begin) std::memcpy(&length, text.data() + length_at, length_bytes);
  if (text.size() < begin || text.size() - begin < length) {
    refuse_file(origin, concat("the header at offset ", begin, " is truncated"));
  }
  return text.substr(begin, length);
}

}  // namespace

NpyHeader parse_npy(std::span<const std::byte> file, std::string_view origin) {
  const std::string_view text = header_text(file, origin);
  const auto* start = reinterpret_cast<const char*>(file.data());
  NpyHeader header = Reader(text, text.data() - start, origin).header();
  header.data_begin = text.data() + text.size() - start;
  const auto bytes = bytes_of(header.dtype, header.shape);
  const int64_t there = static_cast<int64_t>(file.size()) - header.data_begin;
  if (!bytes || *bytes != there) {
    refuse_file(origin,
                concat(there, " bytes from offset ", header.data_begin, "; ",
                       to_string(header.dtype), " of shape (", join(header.shape, ", "), ") needs ",
                       bytes ? std::to_string(*bytes) : "an impossible number"));
  }
  return header;
}

}  // namespace tessera
