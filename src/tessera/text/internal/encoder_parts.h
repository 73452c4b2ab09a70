#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/internal/tokenizer_parts.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text::detail {

/// One thread's way through a tokenizer's steps.
struct EncoderParts {
  explicit EncoderParts(Tokenizer of, const TokenizerParts& its_parts);
  EncoderParts(const EncoderParts&) = delete;
  EncoderParts& operator=(const EncoderParts&) = delete;

  /// Appends the ids of a valid text, or of a part of one, without special tokens.
  bool encode(const Encoder::Part& part, std::vector<int64_t>& out);

  Tokenizer tokenizer;
  const TokenizerParts& parts;

 private:
  /// Hands pieces to a step, and that step's pieces to the next one.
  class StepSink;
  /// Hands pieces to the model.
  class ModelSink;

  bool encode_segments(const AddedTokenFinder& finder, const Piece& piece, bool is_raw);
  bool normalize(const Piece& piece);
  bool split(const Piece& piece);
  bool split_between_symbols(Piece piece);

  Matcher matcher_;
  BpeMemory memory_;
  std::vector<std::unique_ptr<PieceSink>> sinks_;  // The model's first, the first step's last.
  std::vector<int64_t>* ids_ = nullptr;
};

}  // namespace tessera::text::detail
