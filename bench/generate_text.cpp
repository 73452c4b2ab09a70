// How long a model takes to read prompts and to write tokens: bench/peers/transformers_generate.py
// runs this in turns with transformers.
//
//   generate_text FOLDER PROMPTS LENGTH TOKENS THREADS
//
// Token i of prompt r is (7·i + 13·r + 1) modulo the vocabulary. Prints a JSON object: the seconds
// until the first tokens are there, the seconds of the tokens after them (wall-clock time and CPU
// time), and all new tokens.
#include <ATen/Parallel.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/generate/generate.h"
#include "tessera/generate/language_model.h"

namespace tessera {
namespace {

std::vector<TokenIds> make_prompts(int64_t count, int64_t length, int64_t vocab_size) {
  std::vector<TokenIds> prompts(static_cast<size_t>(count));
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      prompts[static_cast<size_t>(row)].push_back((7 * i + 13 * row + 1) % vocab_size);
    }
  }
  return prompts;
}

void run(const std::string& folder, const std::vector<int64_t>& numbers) {
  at::set_num_threads(static_cast<int>(numbers[3]));
  World world = World::connect();
  const LanguageModel model = load_language_model(folder, {}, world);
  const auto prompts = make_prompts(numbers[0], numbers[1], model.config().vocab_size);
  GenerateOptions options{.tokens = 2, .sampling = {.temperature = 0}};
  (void)generate(model, prompts, options);  // Not counted: it makes threads and touches memory.

  options.tokens = numbers[2];
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point first;
  std::clock_t first_cpu = 0;
  int64_t seen = 0;
  const auto texts = generate(model, prompts, options, [&](size_t, int64_t) {
    if (++seen != numbers[0]) return;
    first = Clock::now();
    first_cpu = std::clock();
  });
  const std::chrono::duration<double> reading = first - begin;
  const std::chrono::duration<double> writing = Clock::now() - first;
  const double cpu = static_cast<double>(std::clock() - first_cpu) / CLOCKS_PER_SEC;
  std::cout << nlohmann::json{{"first_s", reading.count()},
                              {"others_s", writing.count()},
                              {"others_cpu_s", cpu},
                              {"tokens", texts}}
            << '\n';
  world.close();
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  try {
    std::vector<int64_t> numbers;
    for (int i = 2; i < count; ++i) {
      numbers.push_back(tessera::to_integer(arguments[i]).value_or(0));
      TSR_CHECK(numbers.back() > 0, "'", arguments[i], "' is not a positive number");
    }
    TSR_CHECK(numbers.size() == 4, "usage: generate_text FOLDER PROMPTS LENGTH TOKENS THREADS");
    tessera::run(arguments[1], numbers);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "generate_text: " << error.what() << '\n';
    return 1;
  }
}
