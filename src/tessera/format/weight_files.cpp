#include "tessera/format/weight_files.h"

#include <filesystem>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// "model-00002-of-00003.safetensors".
bool is_part(std::string_view file) {
  return file.starts_with("model-") && file.ends_with(".safetensors");
}

}  // namespace

WeightMap parse_weight_index(std::string_view text, std::string_view origin) {
  const JsonSource source{.origin = origin, .what = "weight index"};
  const nlohmann::json document = parse_json(text, source);
  WeightMap map;
  JsonField(document, source).at("weight_map").members([&](const auto& name, const auto& field) {
    const std::string file = field.text();
    if (file.empty() || file == ".." || file.find('/') != std::string::npos) {
      field.refuse("the name of a file in the same folder");
    }
    map.emplace(name, file);
  });
  return map;
}

std::string weight_index_json(const WeightMap& map, int64_t total_bytes) {
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total_bytes}}},
                                     {"weight_map", map}};
  return index.dump(2) + "\n";
}

WeightFiles::WeightFiles(const std::string& folder) : folder_(folder) {
  const std::string index = fs::path(folder) / kWeightIndex;
  const std::string single = fs::path(folder) / kWeightFile;
  if (fs::exists(index)) {
    open_shards(folder, index);
  } else if (fs::exists(single)) {
    open_single(single);
  } else {
    throw DataError(concat(folder, " holds neither ", kWeightFile, " nor ", kWeightIndex,
                           "; is it a Hugging Face folder with safetensors weights?"));
  }
}

void WeightFiles::open_single(const std::string& path) {
  files_.emplace_back(path);
  for (const StoredTensor& tensor : files_.front().tensors()) {
    by_name_[tensor.spec.name] = {.file = 0, .tensor = &tensor};
  }
}

void WeightFiles::open_shards(const std::string& folder, const std::string& index) {
  const MappedFile text(index);
  const WeightMap map = parse_weight_index(text_of(text), index);
  std::map<std::string, size_t> opened;
  for (const auto& [name, file] : map) {
    const auto [at, is_new] = opened.emplace(file, files_.size());
    if (is_new) files_.emplace_back(fs::path(folder) / file);
  }
  for (const auto& [name, file] : map) {
    const size_t which = opened.at(file);
    const StoredTensor* tensor = files_[which].find(name);
    if (tensor == nullptr) {
      throw DataError(concat(index, ": '", visible(name), "' should be in ", file, ", but is not"));
    }
    by_name_[name] = {.file = which, .tensor = tensor};
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : by_name_) names.push_back(name);
  return names;
}

std::vector<std::string> WeightFiles::left_over() const {
  std::vector<std::string> found;
  std::set<fs::path> known;
  for (const SafetensorsFile& file : files_) {
    const fs::path name = fs::path(file.path()).filename();
    known.insert(name);
    for (const StoredTensor& tensor : file.tensors()) {
      const auto at = by_name_.find(tensor.spec.name);
      if (at != by_name_.end() && at->second.tensor == &tensor) continue;
      found.push_back(concat("'", visible(tensor.spec.name), "' in ", name.native()));
    }
  }
  if (!fs::exists(fs::path(folder_) / kWeightIndex)) return found;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const fs::path name = entry.path().filename();
    if (is_part(name.native()) && !known.contains(name)) found.push_back(name.native());
  }
  return found;
}

const WeightFiles::Place& WeightFiles::place(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at != by_name_.end()) return at->second;
  throw DataError(concat(folder_, " holds no tensor '", name, "'", did_you_mean(name, names())));
}

const TensorSpec& WeightFiles::spec(std::string_view name) const& {
  return place(name).tensor->spec;
}

std::span<const std::byte> WeightFiles::bytes(std::string_view name) const& {
  const Place& at = place(name);
  return files_[at.file].bytes(*at.tensor);
}

void WeightFiles::read(std::string_view name, size_t begin, std::span<std::byte> out) const {
  const Place& at = place(name);
  files_[at.file].read(*at.tensor, begin, out);
}

}  // namespace tessera
