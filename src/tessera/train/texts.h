#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/train_config.h"
#include "tessera/data/token_data.h"

namespace tessera TSR_API {

struct TokenizeProgress;

/// The texts among a run's data that are encoded by its tokenizer before training. A source is such
/// a text if the run has a tokenizer, data.kind is auto, and the source is a folder or a file whose
/// name does not say that it holds numbers.
std::vector<std::string> texts_to_encode(const TrainConfig& config);

/// ConfigError if texts would silently be read as something else: without a tokenizer by a model
/// from a folder whose vocabulary is not that of bytes, or with a tokenizer that is not there.
void check_texts(const TrainConfig& config, const LlamaConfig& shape);

/// Callbacks while texts are encoded; an empty one is not called.
struct EncodeTexts {
  /// Before the first show() of a text: its path, and that of its token file.
  std::function<void(const std::string& text, const std::string& tokens)> begin = {};
  std::function<void()> wait = {};  // Another process is encoding; this one waits for it.
  std::function<void(const TokenizeProgress&)> show = {};  // After each chunk of a text.
  std::function<void(const TokenizeProgress&)> end = {};   // After each text that was encoded.
};

/// Encodes the run's texts into its cache, those that are not there yet (TokenCache::make). One
/// process does this before the ranks read their data. ConfigError if data.document_end is not the
/// token that ends the texts.
void encode_texts(const TrainConfig& config, const EncodeTexts& callbacks = {});

/// The run's data with the token file of each text in its place. DataError if a text has not been
/// encoded.
std::vector<std::string> token_paths(const TrainConfig& config);

/// Bytes of the text of all tokens but the first of each source; nothing if it is not known.
std::optional<int64_t> text_bytes(const TrainConfig& config, const TokenData& data);
/// The same for tokens of the run's tokenizer; nothing in a build without tokenizers.
std::optional<int64_t> encoded_bytes(const TrainConfig& config, const TokenData& data);

}  // namespace tessera
