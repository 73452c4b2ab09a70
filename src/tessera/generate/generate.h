#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/generate/sampling.h"

namespace tessera TSR_API {

class LanguageModel;

/// Tokens by their ids.
using TokenIds = std::vector<int64_t>;

/// How prompts are continued.
struct GenerateOptions {
  int64_t tokens = 128;           // The most new tokens per prompt.
  SamplingOptions sampling = {};  // How each new token is chosen.
  TokenIds stops = {};  // Tokens that end a text; they are the last ones of what is returned.
};

/// Called with the number of the prompt and its new token, as soon as there is one.
using OnToken = std::function<void(size_t prompt, int64_t token)>;

/// **Collective.** Continues each prompt; returns the new tokens. All ranks give the same prompts
/// and options and get the same tokens, whatever their number. ConfigError for an empty prompt, a
/// token outside the vocabulary, and prompts that with the new tokens exceed the positions of the
/// model.
std::vector<TokenIds> generate(const LanguageModel& model, const std::vector<TokenIds>& prompts,
                               const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace tessera
