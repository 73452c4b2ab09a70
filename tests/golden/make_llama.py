#!/usr/bin/env python3
"""make_llama.py FOLDER: the tables of tests/golden/llama, computed by transformers.

Each table is a folder as transformers saves it (config.json, weights) and answers.safetensors: the tokens and targets
that were given, the logits and the loss that came, and the norm of the gradient of each parameter. Its metadata has the
number of parameters and the floating-point operations of a step as torch counts them.
Needs torch==2.13.0 transformers==4.57.1 safetensors.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

SMALL = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=128, rms_norm_eps=1e-5)
SCALING = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=64)
TABLES = {
    "untied": dict(num_key_value_heads=4),
    "grouped_tied": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=500.0),
    # Heads that together are wider than the hidden size, biases, and a rotary embedding that is stretched.
    "llama3_scaled": dict(num_key_value_heads=1, head_dim=16, attention_bias=True, mlp_bias=True, rope_scaling=SCALING),
}


def make_model(fields):
    torch.manual_seed(20)
    model = LlamaForCausalLM(LlamaConfig(**SMALL, **fields, attn_implementation="eager"))
    with torch.no_grad():  # Values that matter: initial ones are so small that all logits are nearly equal.
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.25)
    return model


def answers_of(model):
    generator = torch.Generator().manual_seed(21)
    tokens, targets = torch.randint(0, SMALL["vocab_size"], (2, 2, 33), generator=generator)
    with FlopCounterMode(display=False) as flops:
        logits = model(input_ids=tokens, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
    parameters = dict(model.named_parameters())
    tensors = {f"grad_norm.{name}": p.grad.norm() for name, p in parameters.items()}
    tensors.update(tokens=tokens.contiguous(), targets=targets.contiguous(), logits=logits.detach(), loss=loss.detach())
    count = sum(p.numel() for p in parameters.values())
    # The angles of the rotary embedding are a product, too, but one that a step need not make.
    angles = sum(flops.get_flop_counts()["LlamaForCausalLM.model.rotary_emb"].values())
    return tensors, dict(parameters=str(count), flops=str(flops.get_total_flops() - angles))


def main():
    for name, fields in TABLES.items():
        folder = pathlib.Path(sys.argv[1]) / name
        model = make_model(fields)
        model.save_pretrained(folder, max_shard_size="40KB" if name == "llama3_scaled" else "5GB")
        (folder / "generation_config.json").unlink()
        tensors, metadata = answers_of(model)
        save_file(tensors, folder / "answers.safetensors", metadata)


if __name__ == "__main__":
    main()
