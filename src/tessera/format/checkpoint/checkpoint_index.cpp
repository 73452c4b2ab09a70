#include "tessera/format/checkpoint/checkpoint_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<int64_t>;

constexpr std::string_view kFormat = "tessera-checkpoint";
constexpr int64_t kVersion = 1;

std::string hex(uint32_t number) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

uint32_t read_hex(const JsonField& field) {
  const std::string text = field.raw_text();
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool good = error == std::errc() && end == text.data() + text.size() && text.size() == 8;
  if (!good) field.refuse("8 hexadecimal digits");
  return number;
}

// The names are a stranger's: only "model/x.safetensors" and "x.safetensors" will do.
std::string read_path(const JsonField& field) {
  const std::string path = field.raw_text();
  const size_t slash = path.find('/');
  const std::string folder = path.substr(0, slash == std::string::npos ? 0 : slash);
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const bool good = (slash == std::string::npos || !folder.empty()) && folder != "." &&
                    folder != ".." && file.find('/') == std::string::npos &&
                    file.ends_with(".safetensors") && path.find('\0') == std::string::npos;
  if (!good) field.refuse("the path of a .safetensors file in the checkpoint's folder");
  return path;
}

Sizes read_sizes(const JsonField& field) {
  return field.list([](const JsonField& size) { return size.integer(0); });
}

CheckpointFile read_checkpoint_file(const JsonField& field) {
  return {.path = read_path(field.at("path")),
          .bytes = field.at("bytes").integer(0),
          .crc32c = read_hex(field.at("crc32c"))};
}

bool lies_in(const Box& box, const Sizes& shape) {
  if (box.shape.size() != shape.size() || box.offset.size() != shape.size()) return false;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (box.offset[dim] > shape[dim] || box.shape[dim] > shape[dim] - box.offset[dim]) return false;
  }
  return true;
}

CheckpointPiece read_piece(const JsonField& field, const Sizes& shape, size_t num_files) {
  CheckpointPiece piece{
      .file = static_cast<size_t>(field.at("file").integer(0, static_cast<int64_t>(num_files) - 1)),
      .box = {.shape = read_sizes(field.at("shape")), .offset = read_sizes(field.at("offset"))}};
  if (!lies_in(piece.box, shape)) {
    field.refuse(concat("a box inside a tensor of shape [", join(shape, ", "), "]"));
  }
  return piece;
}

// Even with a size of 0, the others must not overflow together.
bool overflows(const Sizes& shape) {
  int64_t product = 1;
  return std::ranges::any_of(shape, [&](int64_t size) {
    return size > 0 && __builtin_mul_overflow(product, size, &product);
  });
}

CheckpointTensor read_checkpoint_tensor(const JsonField& field, size_t num_files) {
  CheckpointTensor tensor{.shape = read_sizes(field.at("shape"))};
  const auto dtype = parse_dtype(field.at("dtype").text());
  if (!dtype || bits_of(*dtype) % 8 != 0) {
    field.at("dtype").refuse("a dtype of whole bytes, e.g. \"F32\" or \"BF16\"");
  }
  tensor.dtype = *dtype;
  if (!bytes_of(tensor.dtype, tensor.shape) || overflows(tensor.shape)) {
    field.at("shape").refuse("sizes whose product fits 64 bits");
  }
  tensor.pieces = field.at("pieces").list(
      [&](const JsonField& piece) { return read_piece(piece, tensor.shape, num_files); });
  return tensor;
}

Json json_of(const CheckpointTensor& tensor) {
  Json pieces = Json::array();
  for (const CheckpointPiece& piece : tensor.pieces) {
    pieces.push_back(
        {{"file", piece.file}, {"offset", piece.box.offset}, {"shape", piece.box.shape}});
  }
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
}

void check_distinct_paths(const CheckpointIndex& index, std::string_view origin) {
  std::set<std::string_view> paths;
  for (const CheckpointFile& file : index.files) {
    if (paths.insert(file.path).second) continue;
    throw DataError(concat(origin, ": file ", visible(file.path), " is listed twice"));
  }
}

// A file holds a name once.
void check_pieces_apart(const std::string& name, const CheckpointTensor& tensor,
                        std::string_view origin) {
  std::set<size_t> files;
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (files.insert(piece.file).second) continue;
    throw DataError(
        concat(origin, ": two pieces of '", visible(name), "' are in file ", piece.file));
  }
}

}  // namespace

int64_t CheckpointIndex::total_bytes() const {
  int64_t total = 0;
  for (const CheckpointFile& file : files) total += file.bytes;
  return total;
}

std::string to_json(const CheckpointIndex& index) {
  Json files = Json::array();
  for (const CheckpointFile& file : index.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"crc32c", hex(file.crc32c)}});
  }
  Json tensors = Json::object();
  for (const auto& [name, tensor] : index.tensors) tensors[name] = json_of(tensor);
  Json state = Json::object();
  for (const auto& [key, value] : index.state) state[key] = value;
  const Json document{{"format", kFormat}, {"version", kVersion}, {"step", index.step},
                      {"state", state},    {"files", files},      {"tensors", tensors}};
  return document.dump(1) + "\n";
}

CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view origin) {
  const JsonSource source{.origin = origin, .what = "checkpoint index"};
  const nlohmann::json document = parse_json(text, source);
  const JsonField root(document, source);
  root.at("format").check(root.at("format").raw_text() == kFormat, "\"tessera-checkpoint\"");
  root.at("version").check(root.at("version").integer() == kVersion,
                           "1; this Tessera reads no other version");
  CheckpointIndex index{.step = root.at("step").integer(0)};
  root.at("state").members([&](const std::string& key, const JsonField& value) {
    index.state.emplace(key, value.raw_text());
  });
  index.files = root.at("files").list(read_checkpoint_file);
  check_distinct_paths(index, origin);
  root.at("tensors").members([&](const std::string& name, const JsonField& field) {
    const auto at =
        index.tensors.emplace(name, read_checkpoint_tensor(field, index.files.size())).first;
    check_pieces_apart(name, at->second, origin);
  });
  return index;
}

void check_complete(const CheckpointIndex& index, std::string_view origin) {
  for (const auto& [name, tensor] : index.tensors) {
    std::vector<Box> boxes;
    for (const CheckpointPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    const std::string problem = tiling_problem(tensor.shape, std::move(boxes));
    if (problem.empty()) continue;
    throw DataError(concat(origin, ": the pieces of '", visible(name),
                           "' do not make up the tensor: ", problem));
  }
}

void merge(CheckpointIndex& index, const CheckpointIndex& part) {
  const size_t before = index.files.size();
  index.files.insert(index.files.end(), part.files.begin(), part.files.end());
  for (const auto& [name, from] : part.tensors) {
    const auto [at, is_new] = index.tensors.emplace(name, CheckpointTensor{from.dtype, from.shape});
    CheckpointTensor& to = at->second;
    if (to.dtype != from.dtype || to.shape != from.shape) {
      throw DataError(concat("'", name, "' is ", to_string(to.dtype), " [", join(to.shape, ", "),
                             "] on one rank and ", to_string(from.dtype), " [",
                             join(from.shape, ", "), "] on another"));
    }
    for (const CheckpointPiece& piece : from.pieces) {
      to.pieces.push_back({.file = before + piece.file, .box = piece.box});
    }
  }
}

}  // namespace tessera
