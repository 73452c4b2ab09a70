#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/json_field.h"

namespace tessera TSR_API {

/// A JSON file of a Hugging Face folder; an empty object if there is none.
class FolderJson {
 public:
  /// DataError if the file is broken.
  FolderJson(const std::string& folder, const std::string& name);
  FolderJson(const FolderJson&) = delete;
  FolderJson& operator=(const FolderJson&) = delete;

  /// The whole document; must not outlive this object.
  JsonField root() const { return {json_, source_}; }

 private:
  std::string path_;
  JsonSource source_;
  nlohmann::json json_ = nlohmann::json::object();
};

}  // namespace tessera
