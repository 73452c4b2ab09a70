// How long a Llama of 2 GB takes to load, and how long its file takes to read: bench/loading runs
// these in turns, each in a process of its own.
//
//   load_weights make FOLDER
//   load_weights load|read|copy FOLDER    prints seconds
//
// `read` keeps nothing, like cat; `copy` keeps all of it in memory, which is the least that loading
// must do. The file is in the page cache in any case.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "tessera/base/check.h"
#include "tessera/base/descriptor.h"
#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"

namespace tessera {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

// 542 million parameters of 4 bytes.
const LlamaConfig kConfig{.vocab_size = 32000,
                          .hidden_size = 2048,
                          .intermediate_size = 5632,
                          .num_hidden_layers = 8,
                          .num_attention_heads = 16,
                          .num_key_value_heads = 16,
                          .head_dim = 128};

void make(const std::string& folder) {
  Llama model(kConfig);
  model.initialize(0);
  model.save(folder);
}

void load(const std::string& folder) {
  Llama model(kConfig);
  model.load(WeightFiles(folder));
}

std::string file_of(const std::string& folder) {
  return std::filesystem::path(folder) / kWeightFile;
}

// Reads the file block by block to where `place` says for each offset.
void read_to(const std::string& folder, const std::function<char*(size_t offset)>& place) {
  const std::string path = file_of(folder);
  const Descriptor file = checked(open(path.c_str(), O_RDONLY | O_CLOEXEC), "cannot open " + path);
  size_t offset = 0;
  while (const ssize_t got = ::read(file.get(), place(offset), kBlock)) {
    TSR_CHECK(got > 0, "cannot read ", path);
    offset += static_cast<size_t>(got);
  }
}

void read(const std::string& folder) {
  const auto block = std::make_unique<char[]>(kBlock);
  read_to(folder, [&](size_t) { return block.get(); });
}

void copy(const std::string& folder) {
  const size_t size = std::filesystem::file_size(file_of(folder));
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::malloc(size + kBlock)), &std::free);
  read_to(folder, [&](size_t offset) { return memory.get() + offset; });
}

void run(const std::string& what, const std::string& folder) {
  const std::map<std::string, void (*)(const std::string&)> known{
      {"make", make}, {"load", load}, {"read", read}, {"copy", copy}};
  const auto act = known.find(what);
  TSR_CHECK(act != known.end(), "usage: load_weights make|load|read|copy FOLDER");
  const auto start = std::chrono::steady_clock::now();
  act->second(folder);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (what != "make") std::cout << seconds.count() << '\n';
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  try {
    tessera::run(count == 3 ? arguments[1] : "", count == 3 ? arguments[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "load_weights: " << error.what() << '\n';
    return 1;
  }
}
