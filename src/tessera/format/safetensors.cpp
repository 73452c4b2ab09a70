#include "tessera/format/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/json_field.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

std::string_view header_text(std::span<const std::byte> file, std::string_view origin) {
  const auto size = static_cast<int64_t>(file.size());
  if (size < kLengthBytes) {
    throw DataError(concat(origin, ": ", size,
                           " bytes at offset 0; a safetensors file starts with ",
                           "8 bytes that give the length of its header"));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kLargestSafetensorsHeader)) {
    throw DataError(concat(origin, ": the header length at offset 0 is ", length,
                           "; at most 100,000,000 is allowed. Is this a safetensors file?"));
  }
  if (length > static_cast<uint64_t>(size - kLengthBytes)) {
    throw DataError(concat(origin, ": the header of ", length, " bytes at offset 8 is longer than ",
                           "the file of ", size, " bytes; was it truncated?"));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) {
    throw DataError(concat(origin, ": the header at offset 8 does not start with '{'"));
  }
  return text;
}

Metadata read_metadata(const JsonField& field) {
  Metadata metadata;
  field.members([&](const std::string& key, const JsonField& value) {
    metadata.emplace(visible(key), value.text());
  });
  return metadata;
}

DType read_dtype(const JsonField& field) {
  const auto dtype = parse_dtype(field.text());
  if (!dtype) field.refuse("a dtype of safetensors, e.g. \"F32\" or \"BF16\"");
  return *dtype;
}

// Offsets are relative to the end of the header.
StoredTensor read_tensor(const std::string& name, const JsonField& field) {
  const JsonField offsets_field = field.at("data_offsets");
  const auto offsets =
      offsets_field.list([](const JsonField& offset) { return offset.integer(0, INT64_MAX / 2); });
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    offsets_field.refuse("two offsets, the first not beyond the second");
  }
  StoredTensor tensor{.spec = {.name = name,
                               .dtype = read_dtype(field.at("dtype")),
                               .shape = field.at("shape").list(
                                   [](const JsonField& size) { return size.integer(0); })},
                      .begin = offsets[0],
                      .end = offsets[1]};
  const auto bytes = bytes_of(tensor.spec.dtype, tensor.spec.shape);
  if (!bytes || *bytes != tensor.num_bytes()) {
    offsets_field.refuse(concat(
        "offsets ", bytes ? std::to_string(*bytes) : "an impossible number of", " bytes apart, as ",
        to_string(tensor.spec.dtype), " [", join(tensor.spec.shape, ", "), "] needs"));
  }
  return tensor;
}

// Every byte after the header belongs to exactly one tensor.
void check_cover(const SafetensorsHeader& header, int64_t file_size, std::string_view origin) {
  int64_t at = header.data_begin;
  const auto refuse = [&](const auto&... words) {
    throw DataError(concat(origin, ": ", words...));
  };
  for (const StoredTensor& tensor : header.tensors) {
    const std::string name = visible(tensor.spec.name);
    if (tensor.begin < at)
      refuse("'", name, "' starts at offset ", tensor.begin,
             ", within another tensor that ends at ", at);
    if (tensor.begin > at)
      refuse("the bytes from offset ", at, " to ", tensor.begin, ", before '", name,
             "', belong to no tensor");
    at = tensor.end;
  }
  if (at > file_size)
    refuse("its tensors end at offset ", at, ", but the file has ", file_size,
           " bytes; was it truncated?");
  if (at < file_size)
    refuse("the bytes from offset ", at, " to ", file_size, ", at the end, belong to no tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  const std::string_view text = header_text(file, origin);
  const JsonSource source{
      .origin = origin, .what = "safetensors header", .deepest = 4, .begin = kLengthBytes};
  const nlohmann::json document = parse_json(text, source);
  SafetensorsHeader header{.data_begin = kLengthBytes + static_cast<int64_t>(text.size())};
  JsonField(document, source).members([&](const std::string& name, const JsonField& field) {
    if (name == kMetadata) {
      header.metadata = read_metadata(field);
      return;
    }
    StoredTensor tensor = read_tensor(name, field);
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
    header.tensors.push_back(std::move(tensor));
  });
  std::ranges::stable_sort(header.tensors, [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(header, static_cast<int64_t>(file.size()), origin);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].spec.name] = i;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const& {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &header_.tensors[at->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const StoredTensor& tensor) const& {
  return file_.bytes().subspan(static_cast<size_t>(tensor.begin),
                               static_cast<size_t>(tensor.num_bytes()));
}

void SafetensorsFile::read(const StoredTensor& tensor, size_t begin,
                           std::span<std::byte> out) const {
  const auto size = static_cast<size_t>(tensor.num_bytes());
  TSR_CHECK(begin <= size && out.size() <= size - begin, "'", tensor.spec.name, "' has ", size,
            " bytes; ", out.size(), " from ", begin, " on were requested");
  file_.read(static_cast<size_t>(tensor.begin) + begin, out);
}

}  // namespace tessera
