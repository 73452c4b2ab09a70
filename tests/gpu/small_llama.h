#pragma once

#include "tessera/format/llama_config.h"

namespace tessera {

inline const LlamaConfig kSmallLlama{.vocab_size = 320,
                                     .hidden_size = 64,
                                     .intermediate_size = 96,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 4,
                                     .num_key_value_heads = 2,
                                     .head_dim = 16};

}  // namespace tessera
