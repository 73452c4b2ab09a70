#!/usr/bin/env python3
"""make_llama_losses.py MODELS: the losses of 20 training steps of each Hugging Face folder in MODELS, as JSON on stdout.

The peer is transformers' model under torch.optim.AdamW, in float32 on one thread. Row i of step k begins at token
(k*batch + i)*seq modulo (tokens - seq - 1); the loss is the mean cross-entropy before the update.
tests/golden/llama_losses.json is its answer for tests/golden/llama. Needs torch==2.13.0 transformers==4.57.1.
"""
import json
import pathlib
import sys

import torch
import transformers

STEPS, BATCH, SEQ, LR, WEIGHT_DECAY, TOKENS = 20, 4, 32, 1e-3, 0.1, 1000


def make_tokens(vocab):
    """A walk that is right in three of four steps, so that there is something to learn."""
    generator = torch.Generator().manual_seed(22)
    noise = torch.randint(0, 4 * vocab, (TOKENS,), generator=generator).tolist()
    tokens = [0]
    for value in noise[1:]:
        tokens.append(value if value < vocab else (5 * tokens[-1] + 7) % vocab)
    return tokens


def rows_of(tokens, step):
    starts = [(step * BATCH + row) * SEQ % (len(tokens) - SEQ - 1) for row in range(BATCH)]
    rows = torch.tensor([tokens[start:start + SEQ + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def train(folder, tokens):
    model = transformers.LlamaForCausalLM.from_pretrained(folder, attn_implementation="sdpa").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=WEIGHT_DECAY)
    losses = []
    for step in range(STEPS):
        inputs, targets = rows_of(tokens, step)
        optimizer.zero_grad()
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    folders = sorted(folder for folder in pathlib.Path(sys.argv[1]).iterdir() if (folder / "config.json").exists())
    tokens = make_tokens(min(json.loads((folder / "config.json").read_text())["vocab_size"] for folder in folders))
    table = dict(made_by=f"torch {torch.__version__}, transformers {transformers.__version__}", batch=BATCH, seq=SEQ, lr=LR,
                 weight_decay=WEIGHT_DECAY, tokens=tokens, losses={folder.name: train(folder, tokens) for folder in folders})
    print(json.dumps(table))


if __name__ == "__main__":
    main()
