#include <array>
#include <cstdio>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using Shard = std::vector<TensorSpec>;
using WriteTensor = std::function<void(const TensorSpec&, SafetensorsWriter&)>;

// Other writers set this, and transformers requires it.
const Metadata kMetadata{{"format", "pt"}};

void prepare(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(concat("cannot create folder ", folder, ": ", error.message()));
  for (const std::string_view name : {kWeightFile, kWeightIndex}) {
    TSR_CHECK(!fs::exists(fs::path(folder) / name), folder, " already holds weights (", name,
              "); choose another folder or remove them");
  }
}

int64_t size_of(const TensorSpec& spec) {
  const auto bytes = bytes_of(spec.dtype, spec.shape);
  TSR_CHECK(bytes, "tensor '", spec.name, "' has an invalid size");
  return *bytes;
}

// Starts a new file if a tensor no longer fits.
std::vector<Shard> shards_of(const std::vector<TensorSpec>& tensors, int64_t shard_bytes) {
  std::vector<Shard> shards(1);
  int64_t used = 0;
  for (const TensorSpec& spec : tensors) {
    const int64_t bytes = size_of(spec);
    if (!shards.back().empty() && used + bytes > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(spec);
    used += bytes;
  }
  return shards;
}

void write_shard(const std::string& path, const Shard& shard, const WriteTensor& write) {
  SafetensorsWriter file(path, shard, kMetadata);
  for (const TensorSpec& spec : file.tensors()) write(spec, file);
  file.finish();
}

std::string shard_name(size_t index, size_t count) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text.data();
}

void write_index(const std::string& path, const WeightMap& map, int64_t total_bytes) {
  NewFile file(path);
  file.write(weight_index_json(map, total_bytes));
  file.finish();
}

}  // namespace

void write_weight_files(const std::string& folder, const std::vector<TensorSpec>& tensors,
                        int64_t shard_bytes, const WriteTensor& write) {
  TSR_CHECK(shard_bytes > 0, "shard_bytes=", shard_bytes, "; it must be above 0");
  prepare(folder);
  const std::vector<Shard> shards = shards_of(tensors, shard_bytes);
  if (shards.size() == 1) return write_shard(fs::path(folder) / kWeightFile, shards[0], write);
  WeightMap map;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_shard(fs::path(folder) / name, shards[i], write);
    for (const TensorSpec& spec : shards[i]) {
      map[spec.name] = name;
      total_bytes += size_of(spec);
    }
  }
  write_index(fs::path(folder) / kWeightIndex, map, total_bytes);  // Last: it makes them valid.
}

}  // namespace tessera
