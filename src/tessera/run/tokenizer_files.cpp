#include "tessera/run/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/read_file.h"
#include "tessera/base/text.h"
#include "tessera/format/end_tokens.h"
#include "tessera/format/new_file.h"
#include "tessera/run/model_source.h"
#include "tessera/run/resume.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kGeneration = "generation_config.json";
constexpr std::array kFiles{kTokenizer, std::string_view("tokenizer_config.json"),
                            std::string_view("special_tokens_map.json"),
                            std::string_view("chat_template.jinja"), kGeneration};
constexpr size_t kMostBytes = size_t{256} << 20U;  // Of one file.

void write_text(const fs::path& path, std::string_view text) {
  NewFile file(path);
  file.write(text);
  file.finish();
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  return std::ranges::find(kFiles, name) != kFiles.end();
}

bool has_tokenizer(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::path(folder) / kTokenizer, error);
}

void copy_tokenizer(const std::string& from, const std::string& to, int64_t vocab_size) {
  if (!has_tokenizer(from)) return;
  std::error_code error;
  fs::create_directories(to, error);
  if (error) throw DataError(concat("cannot create ", to, ": ", error.message()));
  for (const std::string_view name : kFiles) {
    const fs::path file = fs::path(from) / name;
    if (fs::exists(file)) write_text(fs::path(to) / name, read_file(file, kMostBytes));
  }
  if (fs::exists(fs::path(to) / kGeneration)) return;
  const std::vector<int64_t> ends = end_tokens(from, vocab_size);
  const nlohmann::json generation{{"eos_token_id", ends}};
  if (!ends.empty()) write_text(fs::path(to) / kGeneration, generation.dump(2) + "\n");
}

std::string find_tokenizer(const std::string& model) {
  const ModelSource source = find_model(model);
  if (!source.is_checkpoint && has_tokenizer(source.path)) return source.path;
  const auto config = find_run_config(model);
  return config ? config->data.tokenizer : "";
}

}  // namespace tessera
