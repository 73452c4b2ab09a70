#include "tessera/generate/generate.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/generate/language_model.h"

namespace tessera {
namespace {

void check_prompts(const LlamaConfig& config, const std::vector<TokenIds>& prompts,
                   int64_t tokens) {
  TSR_CHECK(!prompts.empty(), "there is no prompt to continue");
  TSR_CHECK(tokens > 0, "the number of new tokens is ", tokens, "; give 1 or more");
  for (size_t i = 0; i < prompts.size(); ++i) {
    TSR_CHECK(!prompts[i].empty(), "prompt ", i, " has no tokens; give at least one");
    for (const int64_t id : prompts[i]) {
      TSR_CHECK(0 <= id && id < config.vocab_size, "prompt ", i, " has the token ", id,
                ", but the model's vocabulary has ", config.vocab_size);
    }
    const auto length = static_cast<int64_t>(prompts[i].size());
    TSR_CHECK(length + tokens <= config.max_position_embeddings, "prompt ", i, " has ", length,
              " tokens, which with ", tokens, " new ones exceed the model's ",
              config.max_position_embeddings, " positions; shorten one of them");
  }
}

std::vector<int64_t> lengths_of(const std::vector<TokenIds>& prompts) {
  std::vector<int64_t> lengths;
  for (const TokenIds& prompt : prompts) lengths.push_back(static_cast<int64_t>(prompt.size()));
  return lengths;
}

// Shorter prompts begin later. Padding may be any token: nobody attends to it.
at::Tensor padded(const std::vector<TokenIds>& prompts, int64_t longest) {
  const at::Tensor rows = at::full({static_cast<int64_t>(prompts.size()), longest}, 0, at::kLong);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].size());
    rows.select(0, static_cast<int64_t>(i))
        .narrow(0, longest - length, length)
        .copy_(at::tensor(prompts[i], at::kLong));
  }
  return rows;
}

}  // namespace

std::vector<TokenIds> generate(const LanguageModel& model, const std::vector<TokenIds>& prompts,
                               const GenerateOptions& options, const OnToken& on_token) {
  check(options.sampling);
  check_prompts(model.config(), prompts, options.tokens);
  const std::vector<int64_t> lengths = lengths_of(prompts);
  const int64_t longest = std::ranges::max(lengths);
  KeyValueCache cache(model.config().num_hidden_layers, lengths, longest + options.tokens,
                      model.device());
  std::vector<TokenIds> texts(prompts.size());
  std::vector<bool> ended(prompts.size());
  at::Tensor tokens = padded(prompts, longest).to(model.device());
  for (int64_t step = 0; step < options.tokens; ++step) {
    const at::Tensor next = next_tokens(model.next_logits(tokens, cache), options.sampling, step);
    const at::Tensor ids = next.cpu();
    const auto id_of = ids.accessor<int64_t, 1>();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (ended[i]) continue;
      const int64_t id = id_of[static_cast<int64_t>(i)];
      texts[i].push_back(id);
      if (on_token) on_token(i, id);
      ended[i] = std::ranges::find(options.stops, id) != options.stops.end();
    }
    if (std::ranges::all_of(ended, [](bool end) { return end; })) break;
    tokens = next.unsqueeze(1);
  }
  return texts;
}

}  // namespace tessera
