#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/data/token_source.h"
#include "tessera/text/tokenizer.h"

namespace tessera TSR_API {

/// Bytes of the texts that the tokens stand for, without the first one: what a model predicts that
/// reads all tokens. Special tokens stand for none. Each text ends with the token `end`.
int64_t decoded_bytes(const Tokenizer& tokenizer, const TokenSource& tokens, int64_t end);

}  // namespace tessera
