#include "tessera/format/checkpoint/shard_files.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

/// The pieces of one file, as indices.
struct ShardFile {
  std::string subfolder;
  size_t number = 0;  // From 0: which piece of each tensor.
  std::vector<size_t> pieces = {};
};

std::vector<ShardFile> files_of(std::span<const PieceToSave> pieces) {
  std::map<std::pair<std::string, size_t>, ShardFile> files;
  std::map<std::string_view, size_t> seen;  // Pieces per tensor so far.
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string subfolder = subfolder_of(pieces[i].name);
    const size_t number = seen[pieces[i].name]++;
    ShardFile& file =
        files.try_emplace({subfolder, number}, ShardFile{subfolder, number}).first->second;
    file.pieces.push_back(i);
  }
  std::vector<ShardFile> list;
  for (auto& [key, file] : files) list.push_back(std::move(file));
  return list;
}

// As PyTorch's writer names them: rank, then file, both from 1.
std::string path_of(const ShardFile& file, size_t rank) {
  std::array<char, 80> name{};
  std::snprintf(name.data(), name.size(), "shard-%05zu-model-%05zu-of-%05zu.safetensors", rank + 1,
                file.number + 1, file.number + 1);
  return file.subfolder + "/" + name.data();
}

Metadata metadata_of(const ShardFile& file, std::span<const PieceToSave> pieces) {
  Json offsets = Json::object();
  Json shapes = Json::object();
  for (const size_t i : file.pieces) {
    offsets[pieces[i].name] = {{"saved_offsets", pieces[i].box.offset}};
    shapes[pieces[i].name] = pieces[i].shape;
  }
  return {{"DCP_SHARDING_INFO", offsets.dump()},
          {"DCP_VERSION", "1.0"},
          {"TESSERA_GLOBAL_SHAPES", shapes.dump()},
          {"format", "pt"}};
}

}  // namespace

std::string subfolder_of(std::string_view name) {
  return std::string(name.starts_with("optim.") ? kOptimSubfolder : kModelSubfolder);
}

int64_t bytes_of_pieces(std::span<const PieceToSave> pieces) {
  int64_t bytes = 0;
  for (const PieceToSave& piece : pieces) bytes += piece.num_bytes();
  return bytes;
}

CheckpointIndex write_shard(const std::string& folder, size_t rank,
                            std::span<const PieceToSave> pieces,
                            const std::function<std::span<const std::byte>(size_t)>& bytes_of) {
  CheckpointIndex index;
  for (const ShardFile& file : files_of(pieces)) {
    std::vector<TensorSpec> specs;
    std::map<std::string_view, size_t> by_name;
    for (const size_t i : file.pieces) {
      const PieceToSave& piece = pieces[i];
      specs.push_back({piece.name, piece.dtype, piece.box.shape});
      by_name[piece.name] = i;
      CheckpointTensor& tensor =
          index.tensors.try_emplace(piece.name, CheckpointTensor{piece.dtype, piece.shape})
              .first->second;
      tensor.pieces.push_back({.file = index.files.size(), .box = piece.box});
    }
    const std::string path = path_of(file, rank);
    SafetensorsWriter writer(std::filesystem::path(folder) / path, std::move(specs),
                             metadata_of(file, pieces));
    for (const TensorSpec& spec : writer.tensors()) writer.write(bytes_of(by_name.at(spec.name)));
    writer.finish();
    index.files.push_back({.path = path, .bytes = writer.size(), .crc32c = writer.checksum()});
  }
  return index;
}

}  // namespace tessera
