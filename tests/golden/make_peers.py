#!/usr/bin/env python3
"""make_peers.py FOLDER: the Llama and its relatives, made and trained by transformers, for tests/e2e/parity and generate.

FOLDER/models/NAME is a folder as transformers saves it, with answers.safetensors: tokens and logits. FOLDER/after/NAME holds the weights
after 20 steps, FOLDER/peer.json the cross-entropy and the balancing loss of each step and the number of experts without a token, and
FOLDER/tokens.bin the tokens. Row i of step k begins at token (k*batch + i)*seq modulo (tokens - seq - 1). The objective is the mean
cross-entropy plus router_aux_loss_coef times transformers' balancing loss; an expert without a token has no gradient, so AdamW leaves it
alone. Needs torch==2.13.0 transformers==4.57.1 safetensors numpy.
"""
import json
import pathlib
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file

STEPS, BATCH, SEQ, LR, WEIGHT_DECAY, VOCAB = 20, 8, 32, 1e-3, 0.1, 64
SMALL = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128)
LLAMA = dict(num_hidden_layers=8, rms_norm_eps=1e-5)
EXPERTS = dict(num_experts_per_tok=2, router_aux_loss_coef=0.02)
MODELS = {
    "llama": ("Llama", dict(LLAMA, num_key_value_heads=4)),
    "llama_tied": ("Llama", dict(LLAMA, tie_word_embeddings=True)),
    "mistral": ("Mistral", dict(sliding_window=9)),
    "qwen3": ("Qwen3", dict(head_dim=16, tie_word_embeddings=True)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, **EXPERTS)),
    "mixtral_idle": ("Mixtral", dict(num_local_experts=8, **EXPERTS)),
    "qwen3_moe": ("Qwen3Moe", dict(num_experts=4, moe_intermediate_size=24, head_dim=16, norm_topk_prob=True, mlp_only_layers=[1], **EXPERTS)),
    "qwen2_moe": ("Qwen2Moe", dict(num_experts=4, moe_intermediate_size=24, shared_expert_intermediate_size=40, mlp_only_layers=[1], **EXPERTS)),
    "qwen3_sparse": ("Qwen3Moe", dict(num_experts=6, moe_intermediate_size=20, decoder_sparse_step=2, norm_topk_prob=False, head_dim=8, **EXPERTS)),
}


def make_model(name):
    family, fields = MODELS[name]
    torch.manual_seed(30)
    config = getattr(transformers, family + "Config")(**{**SMALL, **fields})
    model = getattr(transformers, family + "ForCausalLM")(config)
    with torch.no_grad():
        for parameter, values in model.named_parameters():
            if parameter.endswith(".bias"):
                values.normal_(0, 0.1)
            if parameter.endswith(".gate.weight"):  # Wide margins: no rounding decides which expert a token visits.
                values.mul_(1e-3 if name.endswith("idle") else 20)
                if name.endswith("idle"):  # Of each pair of 0 to 3 one is far above 0, the others are not: 4 to 7 are idle at first.
                    for i in range(2):
                        values[2 * i:2 * i + 2] = 0
                        values[2 * i, i], values[2 * i + 1, i] = 4, -4
    return model


def make_tokens():
    """A walk that is right in three of four steps, so that there is something to learn."""
    noise = torch.randint(0, 4 * VOCAB, (4000,), generator=torch.Generator().manual_seed(22)).tolist()
    tokens = [0]
    for value in noise[1:]:
        tokens.append(value if value < VOCAB else (5 * tokens[-1] + 7) % VOCAB)
    return tokens


def rows_of(tokens, step):
    starts = [(step * BATCH + row) * SEQ % (len(tokens) - SEQ - 1) for row in range(BATCH)]
    rows = torch.tensor([tokens[start:start + SEQ + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def train(model, tokens):
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=WEIGHT_DECAY)
    sparse = hasattr(model.config, "router_aux_loss_coef")
    steps = []
    for step in range(STEPS):
        inputs, targets = rows_of(tokens, step)
        optimizer.zero_grad(set_to_none=True)
        result = model(input_ids=inputs, use_cache=False, **(dict(output_router_logits=True) if sparse else {}))
        loss = torch.nn.functional.cross_entropy(result.logits.flatten(0, 1), targets.flatten())
        (loss + model.config.router_aux_loss_coef * result.aux_loss if sparse else loss).backward()
        idle = sum(parameter.grad is None for parameter in model.parameters()) // 3
        optimizer.step()
        steps.append(dict(loss=loss.item(), aux_loss=result.aux_loss.item() if sparse else None, idle=idle))
    return steps


def main():
    torch.set_num_threads(1)
    work = pathlib.Path(sys.argv[1])
    tokens = make_tokens()
    numpy.array(tokens, dtype="<u2").tofile(work / "tokens.bin")
    given = torch.randint(0, VOCAB, (2, 40), generator=torch.Generator().manual_seed(31))
    steps = {}
    for name in MODELS:
        model = make_model(name)
        model.save_pretrained(work / "models" / name)
        with torch.no_grad():
            logits = model(input_ids=given).logits
        save_file(dict(tokens=given, logits=logits), work / "models" / name / "answers.safetensors")
        steps[name] = train(model.train(), tokens)
        model.save_pretrained(work / "after" / name)
    (work / "peer.json").write_text(json.dumps(steps))


if __name__ == "__main__":
    main()
