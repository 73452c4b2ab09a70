// llama_logits FOLDER COPY: loads a Hugging Face folder, writes it again as COPY, in many files,
// and beside it COPY.logits.safetensors: the logits of the tokens in FOLDER/answers.safetensors.
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"

namespace tessera {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

at::Tensor tokens_of(const std::string& path) {
  const SafetensorsFile file(path);
  const StoredTensor* stored = file.find("tokens");
  if (stored == nullptr) throw std::runtime_error(path + " holds no tokens");
  void* data = const_cast<std::byte*>(file.bytes(*stored).data());
  return at::from_blob(data, stored->spec.shape, at::kLong).clone();
}

void write_logits(const std::string& path, const at::Tensor& logits) {
  SafetensorsWriter file(path, {{.name = "logits", .shape = logits.sizes().vec()}});
  file.write({static_cast<const std::byte*>(logits.const_data_ptr()), logits.nbytes()});
  file.finish();
}

void run(const std::string& folder, const std::string& copy) {
  const at::NoGradGuard no_grad;
  Llama model(parse_llama_config(text_of(folder + "/config.json"), folder));
  model.load(WeightFiles(folder));
  model.save(copy, 20'000);
  write_logits(copy + ".logits.safetensors",
               model.forward(tokens_of(folder + "/answers.safetensors")).contiguous());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: llama_logits FOLDER COPY");
    tessera::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
