#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/format/checkpoint/torch_checkpoint.h"
#include "tessera/format/pickle.h"

namespace tessera {
namespace {

using Kind = PickleValue::Kind;
using Sizes = std::vector<int64_t>;

struct TorchDType {
  std::string_view name;
  DType dtype;
};

constexpr std::array kTorchDTypes{
    TorchDType{"torch.bool", DType::kBool},
    TorchDType{"torch.uint8", DType::kU8},
    TorchDType{"torch.int8", DType::kI8},
    TorchDType{"torch.int16", DType::kI16},
    TorchDType{"torch.int32", DType::kI32},
    TorchDType{"torch.int64", DType::kI64},
    TorchDType{"torch.float16", DType::kF16},
    TorchDType{"torch.bfloat16", DType::kBF16},
    TorchDType{"torch.float32", DType::kF32},
    TorchDType{"torch.float64", DType::kF64},
    TorchDType{"torch.complex64", DType::kC64},
    TorchDType{"torch.float8_e4m3fn", DType::kF8E4M3},
    TorchDType{"torch.float8_e5m2", DType::kF8E5M2},
};

constexpr std::string_view kPlace = "torch.distributed.checkpoint.metadata.";

bool is_known(std::string_view name) {
  constexpr std::array kNames{"torch.Size",
                              "torch.serialization._get_layout",
                              "torch.distributed.checkpoint.filesystem._StorageInfo",
                              "torch.distributed.checkpoint.filesystem.StorageMeta",
                              "pathlib.PosixPath",
                              "pathlib.WindowsPath"};
  constexpr std::array kClasses{"Metadata",
                                "TensorStorageMetadata",
                                "TensorProperties",
                                "ChunkStorageMetadata",
                                "BytesStorageMetadata",
                                "MetadataIndex",
                                "StorageMeta",
                                "_MEM_FORMAT_ENCODING"};
  if (std::ranges::find(kTorchDTypes, name, &TorchDType::name) != kTorchDTypes.end()) return true;
  if (std::ranges::find(kNames, name) != kNames.end()) return true;
  return name.starts_with(kPlace) &&
         std::ranges::find(kClasses, name.substr(kPlace.size())) != kClasses.end();
}

/// Reads records with the path of the file for messages.
struct MetadataReader {
  std::string_view origin;

  [[noreturn]] void fail(const std::string& words) const {
    throw DataError(concat(origin, ": ", words));
  }

  // The fields of an object of this class.
  const PickleValue& state(const PickleValue& value, std::string_view name) const {
    if (value.kind != Kind::kRecord || !value.text.ends_with(name) || value.items.size() != 2) {
      fail(concat("a ", name, " is expected"));
    }
    return value.items[1];
  }
  const PickleValue& field(const PickleValue& fields, std::string_view key) const {
    const PickleValue* const found = fields.find(key);
    if (found == nullptr) fail(concat("an object has no field '", key, "'"));
    return *found;
  }
  int64_t size(const PickleValue& value) const {
    if (value.kind != Kind::kInteger || value.integer < 0) fail("a size is expected");
    return value.integer;
  }
  std::string text(const PickleValue& value) const {
    if (value.kind != Kind::kText) fail("a text is expected");
    return value.text;
  }
  // torch.Size((4, 3)).
  Sizes sizes(const PickleValue& value) const {
    const bool good = value.kind == Kind::kRecord && value.text == "torch.Size" &&
                      value.items[0].items.size() == 1;
    if (!good) fail("a torch.Size is expected");
    Sizes sizes;
    for (const PickleValue& one : value.items[0].items[0].items) sizes.push_back(size(one));
    return sizes;
  }
  // TensorProperties keeps a tuple, dtype first.
  DType dtype(const PickleValue& properties) const {
    const PickleValue& fields = state(properties, "TensorProperties");
    const PickleValue* const found = fields.kind == Kind::kTuple && !fields.items.empty()
                                         ? &fields.items[0]
                                         : fields.find("dtype");
    const auto* const known =
        std::ranges::find(kTorchDTypes, found == nullptr ? "" : found->text, &TorchDType::name);
    if (known == kTorchDTypes.end()) fail("a dtype is expected");
    return known->dtype;
  }

  TorchTensor tensor(const PickleValue& value) const {
    const PickleValue& fields = state(value, "TensorStorageMetadata");
    TorchTensor tensor{.dtype = dtype(field(fields, "properties")),
                       .shape = sizes(field(fields, "size"))};
    if (!bytes_of(tensor.dtype, tensor.shape)) fail("the size of a tensor overflows 64 bits");
    for (const PickleValue& one : field(fields, "chunks").items) {
      const PickleValue& chunk = state(one, "ChunkStorageMetadata");
      tensor.chunks.push_back({.box = {.shape = sizes(field(chunk, "sizes")),
                                       .offset = sizes(field(chunk, "offsets"))}});
      check_inside(tensor.chunks.back().box, tensor.shape);
    }
    return tensor;
  }
  void check_inside(const Box& box, const Sizes& shape) const {
    bool good = box.shape.size() == shape.size() && box.offset.size() == shape.size();
    for (size_t i = 0; good && i < shape.size(); ++i) {
      good = box.offset[i] <= shape[i] && box.shape[i] <= shape[i] - box.offset[i];
    }
    if (!good) fail(concat("chunk ", box, " is not inside its tensor"));
  }

  std::string file_name(const PickleValue& value) const {
    std::string name = text(value);
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      fail("a file name leaves the folder");
    }
    return name;
  }

  // Where the chunk at an offset is stored.
  void place(const PickleValue& key, const PickleValue& value,
             std::map<std::string, TorchTensor>& tensors) const {
    const PickleValue& index = state(key, "MetadataIndex");
    const auto at = tensors.find(text(field(index, "fqn")));
    const PickleValue* const offset = index.find("offset");
    if (at == tensors.end() || offset == nullptr || offset->kind == Kind::kNone) return;
    const PickleValue& info = state(value, "_StorageInfo");
    const PickleValue* const transforms = info.find("transform_descriptors");
    if (transforms != nullptr && transforms->kind != Kind::kNone) {
      fail(concat("'", visible(at->first),
                  "' is transformed (compressed?), which is not read here"));
    }
    const Sizes begin = sizes(*offset);
    for (TorchChunk& chunk : at->second.chunks) {
      if (chunk.box.offset != begin) continue;
      chunk.file = file_name(field(info, "relative_path"));
      chunk.begin = size(field(info, "offset"));
      chunk.size = size(field(info, "length"));
    }
  }
};

}  // namespace

std::map<std::string, TorchTensor> parse_torch_metadata(std::span<const std::byte> bytes,
                                                        std::string_view origin) {
  const MetadataReader reader{origin};
  const PickleValue root = parse_pickle(bytes, origin, is_known);
  const PickleValue& fields = reader.state(root, "Metadata");
  std::map<std::string, TorchTensor> tensors;
  const PickleValue& listed = reader.field(fields, "state_dict_metadata");
  for (size_t i = 0; i + 1 < listed.items.size(); i += 2) {
    const PickleValue& value = listed.items[i + 1];
    if (!value.text.ends_with("TensorStorageMetadata")) continue;  // A value that is no tensor.
    tensors[reader.text(listed.items[i])] = reader.tensor(value);
  }
  const PickleValue& stored = reader.field(fields, "storage_data");
  for (size_t i = 0; i + 1 < stored.items.size(); i += 2) {
    reader.place(stored.items[i], stored.items[i + 1], tensors);
  }
  for (const auto& [name, tensor] : tensors) {
    for (const TorchChunk& chunk : tensor.chunks) {
      if (chunk.file.empty()) reader.fail(concat("a chunk of '", visible(name), "' is not stored"));
    }
  }
  return tensors;
}

}  // namespace tessera
