#include "tessera/model/llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"
#include "tessera/layer/attention.h"
#include "tessera/layer/hollow.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/norm.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/weights.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

// Shapes in comments: B batch, S positions, D hidden_size, H heads, K key-value heads, h head_dim,
// F intermediate_size, V vocab_size.

constexpr const char* kEmbedding = "model.embed_tokens.weight";

using EachParameter = std::function<void(const std::string& name, const at::Tensor& tensor)>;

at::Tensor parameter(at::IntArrayRef shape, const LlamaOptions& options) {
  return hollow(shape, at::device(options.device).dtype(options.dtype)).requires_grad_();
}

struct Projection {
  at::Tensor weight;
  at::Tensor bias;  // Undefined where there is none.

  Projection(int64_t inputs, int64_t outputs, bool has_bias, const LlamaOptions& options)
      : weight(parameter({outputs, inputs}, options)) {
    if (has_bias) bias = parameter({outputs}, options);
  }

  at::Tensor operator()(const at::Tensor& x, const LlamaPass& pass) const {
    return linear(x, weight, bias, pass.deferred);
  }

  void each(const std::string& name, const EachParameter& visit) const {
    visit(name + ".weight", weight);
    if (bias.defined()) visit(name + ".bias", bias);
  }
};

struct Attention {
  int64_t head_dim;
  Projection q, k, v, o;

  Attention(const LlamaConfig& c, const LlamaOptions& options)
      : head_dim(c.head_dim),
        q(c.hidden_size, c.num_attention_heads * c.head_dim, c.attention_bias, options),
        k(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias, options),
        v(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias, options),
        o(c.num_attention_heads * c.head_dim, c.hidden_size, c.attention_bias, options) {}

  // [B, S, D] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const RotaryTable& rotary,
                        const LlamaPass& pass) const {
    const auto heads = [&](const Projection& project) {  // [B, S, H or K, h]
      return project(x, pass).unflatten(-1, {-1, head_dim});
    };
    const at::Tensor mixed =
        causal_attention(rotate(heads(q), rotary), rotate(heads(k), rotary), heads(v));
    return o(mixed.flatten(2), pass);
  }

  void each(const std::string& name, const EachParameter& visit) const {
    q.each(name + ".q_proj", visit);
    k.each(name + ".k_proj", visit);
    v.each(name + ".v_proj", visit);
    o.each(name + ".o_proj", visit);
  }
};

struct SwiGlu {
  Projection gate, up, down;

  SwiGlu(const LlamaConfig& c, const LlamaOptions& options)
      : gate(c.hidden_size, c.intermediate_size, c.mlp_bias, options),
        up(c.hidden_size, c.intermediate_size, c.mlp_bias, options),
        down(c.intermediate_size, c.hidden_size, c.mlp_bias, options) {}

  // [B, S, D] → [B, S, F] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const LlamaPass& pass) const {
    return down(at::silu(gate(x, pass)) * up(x, pass), pass);
  }

  void each(const std::string& name, const EachParameter& visit) const {
    gate.each(name + ".gate_proj", visit);
    up.each(name + ".up_proj", visit);
    down.each(name + ".down_proj", visit);
  }
};

struct Norm {
  at::Tensor weight;
  double eps;

  Norm(const LlamaConfig& c, const LlamaOptions& options)
      : weight(parameter({c.hidden_size}, options)), eps(c.rms_norm_eps) {}

  at::Tensor operator()(const at::Tensor& x) const { return rms_norm(x, weight, eps); }
};

struct Block {
  Attention attention;
  SwiGlu mlp;
  Norm before_attention, before_mlp;

  Block(const LlamaConfig& config, const LlamaOptions& options)
      : attention(config, options),
        mlp(config, options),
        before_attention(config, options),
        before_mlp(config, options) {}

  at::Tensor operator()(const at::Tensor& x, const RotaryTable& rotary,
                        const LlamaPass& pass) const {
    const at::Tensor attended = x + attention(before_attention(x), rotary, pass);
    return attended + mlp(before_mlp(attended), pass);
  }

  void each(int64_t index, const EachParameter& visit) const {
    const std::string name = concat("model.layers.", index);
    attention.each(name + ".self_attn", visit);
    mlp.each(name + ".mlp", visit);
    visit(name + ".input_layernorm.weight", before_attention.weight);
    visit(name + ".post_attention_layernorm.weight", before_mlp.weight);
  }
};

LlamaPart whole(const LlamaConfig& config) {
  return {.begin = 0, .end = config.num_hidden_layers};
}

at::ScalarType checked_dtype(at::ScalarType dtype) {
  TSR_CHECK(at::isFloatingType(dtype), "a Llama of dtype ", dtype,
            " cannot be trained; choose a floating-point one");
  return dtype;
}

LlamaPart checked_part(const LlamaConfig& config, const LlamaOptions& options) {
  check(config);
  const LlamaPart part = options.part.value_or(whole(config));
  TSR_CHECK(0 <= part.begin && part.begin <= part.end && part.end <= config.num_hidden_layers,
            "blocks ", part.begin, " to ", part.end, " are no part of a Llama of ",
            config.num_hidden_layers, " blocks");
  checked_dtype(options.dtype);
  return part;
}

// One tensor of a unit speaks for all of it: strategies fill and free units whole.
void check_filled(const at::Tensor& tensor) {
  if (!is_hollow(tensor)) return;
  throw StateError("the Llama has no values yet; call load() or initialize() before it runs");
}

NamedParameters listed(const std::function<void(const EachParameter&)>& walk) {
  NamedParameters all;
  walk([&](const std::string& name, const at::Tensor& tensor) { all.push_back({name, tensor}); });
  return all;
}

Distribution initial(const std::string& name, const LlamaConfig& config) {
  if (name.ends_with("norm.weight")) return Constant{1};
  if (name.ends_with(".bias")) return Constant{0};
  return Normal{.std = config.initializer_range};
}

// Files may hold a tied head a second time, and old ones the frequencies of the rotary embedding.
bool is_no_parameter(std::string_view name, const LlamaConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") ||
         (config.tie_word_embeddings && name == "lm_head.weight");
}

}  // namespace

struct Llama::State {
  LlamaConfig config;
  LlamaOptions options;
  LlamaPart part;
  std::vector<double> frequencies;
  std::vector<Block> blocks = {};
  at::Tensor embedding = {};        // Undefined where this part has none.
  std::optional<Norm> norm = {};    // With the head.
  at::Tensor own_head = {};         // Where it is not tied.
  mutable RotaryTable rotary = {};  // For the positions seen last.

  State(const LlamaConfig& given, const LlamaOptions& with)
      : config(given),
        options(with),
        part(checked_part(given, with)),
        frequencies(rotary_frequencies(given)) {
    const bool tied = part.head && config.tie_word_embeddings;
    if (part.embedding || tied) embedding = vocabulary();
    for (int64_t i = part.begin; i < part.end; ++i) blocks.emplace_back(config, options);
    if (part.head) norm.emplace(config, options);
    if (part.head && !tied) own_head = vocabulary();
  }

  at::Tensor vocabulary() const {
    return parameter({config.vocab_size, config.hidden_size}, options);
  }

  const Block& block(int64_t index) const {
    TSR_CHECK(part.begin <= index && index < part.end, "block ", index,
              " is not in this part, which has blocks ", part.begin, " to ", part.end - 1);
    return blocks[static_cast<size_t>(index - part.begin)];
  }

  // Made again for another length, dtype or device alone.
  const RotaryTable& rotary_for(const at::Tensor& hidden) const {
    const at::Tensor& known = rotary.cosines;
    if (!known.defined() || known.size(0) != hidden.size(1) || known.dtype() != hidden.dtype() ||
        known.device() != hidden.device()) {
      rotary = rotary_table(frequencies, hidden.size(1), hidden.options());
    }
    return rotary;
  }

  void each_of_head(const EachParameter& visit) const {
    if (norm) visit("model.norm.weight", norm->weight);
    if (own_head.defined()) visit("lm_head.weight", own_head);
  }

  void each(const EachParameter& visit) const {
    if (embedding.defined()) visit(kEmbedding, embedding);
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i].each(part.begin + static_cast<int64_t>(i), visit);
    }
    each_of_head(visit);
  }

  void move() const {
    replace([&](const std::string&, const at::Tensor& tensor) {
      const at::TensorOptions wanted = at::device(options.device).dtype(options.dtype);
      return tessera::is_hollow(tensor) ? hollow(tensor.sizes(), wanted) : tensor.to(wanted);
    });
  }

  // The tensors stay the same objects: whoever holds one sees the new contents.
  void replace(const std::function<at::Tensor(const std::string&, const at::Tensor&)>& make) const {
    const at::NoGradGuard no_grad;
    each([&](const std::string& name, const at::Tensor& tensor) {
      tensor.mutable_grad().reset();
      tensor.set_data(make(name, tensor));
    });
  }
};

Llama::Llama(const LlamaConfig& config, const LlamaOptions& options)
    : state_(std::make_unique<State>(config, options)) {}
Llama::Llama(Llama&&) noexcept = default;
Llama& Llama::operator=(Llama&&) noexcept = default;
Llama::~Llama() = default;

const LlamaConfig& Llama::config() const {
  return state_->config;
}

const LlamaPart& Llama::part() const {
  return state_->part;
}

at::ScalarType Llama::dtype() const {
  return state_->options.dtype;
}

at::Device Llama::device() const {
  return state_->options.device;
}

at::Tensor Llama::forward(const at::Tensor& input, const LlamaPass& pass) const {
  at::Tensor x = part().embedding ? embed(input) : input;
  for (int64_t i = part().begin; i < part().end; ++i) x = block(i, x, pass);
  return part().head ? head(x, pass) : x;
}

at::Tensor Llama::embed(const at::Tensor& tokens) const {
  TSR_CHECK(part().embedding, "this part has no embedding; it takes hidden states");
  check_filled(state_->embedding);
  return tessera::embed(tokens, state_->embedding);
}

at::Tensor Llama::block(int64_t index, const at::Tensor& hidden, const LlamaPass& pass) const {
  TSR_CHECK(hidden.dim() == 3 && hidden.size(2) == config().hidden_size, "hidden states of shape ",
            hidden.sizes(), " came; blocks take [batch, positions, ", config().hidden_size, "]");
  const Block& block = state_->block(index);
  check_filled(block.attention.q.weight);
  return block(hidden, state_->rotary_for(hidden), pass);
}

at::Tensor Llama::head(const at::Tensor& hidden, const LlamaPass& pass) const {
  TSR_CHECK(part().head, "this part has no head; it gives hidden states");
  const at::Tensor& weight = config().tie_word_embeddings ? state_->embedding : state_->own_head;
  check_filled(weight);
  return linear((*state_->norm)(hidden), weight, {}, pass.deferred);
}

NamedParameters Llama::named_parameters() const {
  return listed([&](const EachParameter& visit) { state_->each(visit); });
}

NamedParameters Llama::block_parameters(int64_t index) const {
  return listed([&](const EachParameter& visit) { state_->block(index).each(index, visit); });
}

NamedParameters Llama::head_parameters() const {
  return listed([&](const EachParameter& visit) { state_->each_of_head(visit); });
}

int64_t Llama::parameter_count() const {
  int64_t count = 0;
  state_->each([&](const std::string&, const at::Tensor& tensor) { count += tensor.numel(); });
  return count;
}

void Llama::to(at::ScalarType dtype) {
  state_->options.dtype = checked_dtype(dtype);
  state_->move();
}

void Llama::to(at::Device device) {
  state_->options.device = device;
  state_->move();
}

bool Llama::is_hollow() const {
  const NamedParameters all = named_parameters();
  return std::ranges::any_of(all, [](const auto& p) { return tessera::is_hollow(p.tensor); });
}

void Llama::initialize(uint64_t seed) {
  state_->replace([&](const std::string& name, const at::Tensor& tensor) {
    const at::Tensor values = at::empty_like(tensor);
    const Span all{0, tensor.numel()};
    init_(values, std::span(&all, 1), {.seed = seed, .name = name}, initial(name, config()));
    return values;
  });
}

void Llama::load(const WeightFiles& files) {
  check_weights(files, Llama(config()).named_parameters(),
                [&](std::string_view name) { return is_no_parameter(name, config()); });
  state_->replace([&](const std::string& name, const at::Tensor& tensor) {
    return read_tensor(files, name, tensor);
  });
}

void Llama::save(const std::string& folder, int64_t shard_bytes) const {
  if (is_hollow())
    throw StateError("a Llama without values cannot be saved; call load() or initialize() first");
  save(folder, shard_bytes, own_values);
}

void Llama::save(const std::string& folder, int64_t shard_bytes,
                 const ParameterSource& source) const {
  TSR_CHECK(part() == whole(config()), "a part of a Llama (blocks ", part().begin, " to ",
            part().end - 1, ") is no Hugging Face folder; save the whole");
  write_tensors(named_parameters(), folder, shard_bytes, source);
  NewFile file(std::filesystem::path(folder) / "config.json");
  file.write(to_json(config(), config_name(dtype())));
  file.finish();
}

}  // namespace tessera
