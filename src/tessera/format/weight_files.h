#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/safetensors.h"

namespace tessera TSR_API {

/// What the files of a Hugging Face folder are called.
inline constexpr std::string_view kWeightFile = "model.safetensors";
inline constexpr std::string_view kWeightIndex = "model.safetensors.index.json";

/// The weights of a Hugging Face folder: model.safetensors, or the files among which
/// model.safetensors.index.json shares them out. Where a tensor lies is what the index says, not
/// what a file is called; what the index does not name is no weight.
class WeightFiles {
 public:
  /// DataError where neither is there, where the index names a file outside the folder, or one that
  /// is missing or broken, or a tensor that its file does not hold.
  explicit WeightFiles(const std::string& folder);

  std::span<const SafetensorsFile> files() const& { return files_; }
  std::vector<SafetensorsFile> files() && { return std::move(files_); }
  /// The tensors in the order of their names.
  std::vector<std::string> names() const;

  /// What lies in the folder although the index does not lead to it: tensors of its files, as
  /// "'name' in file", and files that are called as parts are, model-*.safetensors. Empty without
  /// an index.
  std::vector<std::string> left_over() const;

  bool contains(std::string_view name) const { return by_name_.contains(name); }
  /// DataError with the nearest name where there is none.
  const TensorSpec& spec(std::string_view name) const&;
  TensorSpec spec(std::string_view name) && { return spec(name); }
  std::span<const std::byte> bytes(std::string_view name) const&;
  std::span<const std::byte> bytes(std::string_view name) && = delete;  // They would be unmapped.
  /// Copies the tensor's bytes from `begin` on, as many as `out` takes, faster than from bytes().
  void read(std::string_view name, size_t begin, std::span<std::byte> out) const;

 private:
  struct Place {
    size_t file = 0;
    const StoredTensor* tensor = nullptr;
  };
  void open_single(const std::string& path);
  void open_shards(const std::string& folder, const std::string& index);
  const Place& place(std::string_view name) const;

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> by_name_;
};

/// Which file holds which tensor, as model.safetensors.index.json says it.
using WeightMap = std::map<std::string, std::string>;
WeightMap parse_weight_index(std::string_view text, std::string_view origin);
std::string weight_index_json(const WeightMap& map, int64_t total_bytes);

/// Writes the weights of a Hugging Face folder, which is made where it is not there: one file, or
/// where they have more than `shard_bytes` several with an index, tensors in the given order.
/// `write` gives a file the bytes of one tensor. ConfigError where the folder holds weights
/// already: they stay as they are.
void write_weight_files(const std::string& folder, const std::vector<TensorSpec>& tensors,
                        int64_t shard_bytes,
                        const std::function<void(const TensorSpec&, SafetensorsWriter&)>& write);

}  // namespace tessera
