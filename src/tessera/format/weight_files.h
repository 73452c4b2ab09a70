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

/// File names in a Hugging Face folder.
inline constexpr std::string_view kWeightFile = "model.safetensors";
/// The file that lists which file holds which weight.
inline constexpr std::string_view kWeightIndex = "model.safetensors.index.json";

/// The weights of a Hugging Face folder: model.safetensors, or the shard files in
/// model.safetensors.index.json. The index decides which file holds a tensor; tensors that it does
/// not list are no weights.
class WeightFiles {
 public:
  /// DataError if neither exists, if the index names a file outside the folder or one that is
  /// missing or malformed, or if a file does not hold a tensor listed for it.
  explicit WeightFiles(const std::string& folder);

  /// The files of the index, or the only one.
  std::span<const SafetensorsFile> files() const& { return files_; }
  std::vector<SafetensorsFile> files() && { return std::move(files_); }
  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;

  /// What the index does not list: tensors of its files, as "'name' in file", and files that look
  /// like shards, model-*.safetensors. Empty without an index.
  std::vector<std::string> left_over() const;

  /// Whether the weights have a tensor of this name.
  bool contains(std::string_view name) const { return by_name_.contains(name); }
  /// DataError with the nearest name if there is no such tensor.
  const TensorSpec& spec(std::string_view name) const&;
  TensorSpec spec(std::string_view name) && { return spec(name); }
  /// Of a tensor, mapped until this object is destroyed. DataError as in spec().
  std::span<const std::byte> bytes(std::string_view name) const&;
  std::span<const std::byte> bytes(std::string_view name) && = delete;  // They would be unmapped.
  /// Copies `out.size()` bytes of the tensor from `begin` on; faster than from bytes().
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

/// Maps tensors to files, as in model.safetensors.index.json.
using WeightMap = std::map<std::string, std::string>;
/// The names and files of an index; `origin` names it in errors.
WeightMap parse_weight_index(std::string_view text, std::string_view origin);
/// The text of an index.
std::string weight_index_json(const WeightMap& map, int64_t total_bytes);

/// Writes the weights of a Hugging Face folder and creates the folder if needed: one file, or,
/// above `shard_bytes`, several and an index; tensors are in the given order. `write` writes the
/// bytes of one tensor to a file. ConfigError if the folder already holds weights, which it leaves
/// unchanged.
void write_weight_files(const std::string& folder, const std::vector<TensorSpec>& tensors,
                        int64_t shard_bytes,
                        const std::function<void(const TensorSpec&, SafetensorsWriter&)>& write);

}  // namespace tessera
