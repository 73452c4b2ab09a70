#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/check.h"
#include "tessera/format/new_file.h"
#include "tessera/format/safetensors.h"

namespace tessera {
namespace {

constexpr size_t kAlignment = 8;  // Of the first byte after the header, and so of all tensors.

int64_t size_of(const TensorSpec& spec) {
  const auto bytes = bytes_of(spec.dtype, spec.shape);
  TSR_CHECK(bytes, "tensor '", spec.name, "' of shape [", join(spec.shape, ", "), "] and dtype ",
            to_string(spec.dtype), " does not have a whole number of bytes");
  return *bytes;
}

void check_names(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : tensors) {
    TSR_CHECK(!spec.name.empty() && spec.name != "__metadata__", "a tensor is called '", spec.name,
              "', which safetensors reserves; choose another name");
    TSR_CHECK(names.insert(spec.name).second, "two tensors are called '", spec.name, "'");
  }
}

// The length and the JSON, padded with blanks.
std::string header_bytes(const std::vector<TensorSpec>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const TensorSpec& spec : tensors) {
    const int64_t end = at + size_of(spec);
    header[spec.name] = {
        {"dtype", to_string(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

}  // namespace

struct SafetensorsWriter::Output {
  std::vector<TensorSpec> tensors;
  NewFile file;
  int64_t missing = 0;  // Bytes not yet written.
};

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                                     const Metadata& metadata) {
  check_names(tensors);
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](const TensorSpec& spec) { return bits_of(spec.dtype); });
  const std::string header = header_bytes(tensors, metadata);
  output_ = std::make_unique<Output>(
      Output{.tensors = std::move(tensors), .file = NewFile(std::move(path))});
  for (const TensorSpec& spec : output_->tensors) output_->missing += size_of(spec);
  output_->file.write(std::as_bytes(std::span(header)));
}

SafetensorsWriter::~SafetensorsWriter() = default;

std::span<const TensorSpec> SafetensorsWriter::tensors() const {
  return output_->tensors;
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  TSR_CHECK(size <= output_->missing, size, " bytes were written to ", output_->file.path(),
            ", whose tensors have room for only ", output_->missing, " more");
  output_->file.write(bytes);
  output_->missing -= size;
}

int64_t SafetensorsWriter::size() const {
  return output_->file.size();
}

uint32_t SafetensorsWriter::checksum() const {
  return output_->file.checksum();
}

void SafetensorsWriter::finish() {
  TSR_CHECK(output_->missing == 0, output_->missing, " bytes of the tensors of ",
            output_->file.path(), " were not written");
  output_->file.finish();
}

}  // namespace tessera
