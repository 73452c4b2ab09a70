"""Steps of `tessera train` beside those of PyTorch: the same Llama, tokens and optimizer, in one run.

    torch_train.py compare TESSERA [PEER]    both sides in turns on one and two threads, and a table; PEER is another
                                             script with this one's `train`
    torch_train.py train --mode single --model DIR --data FILE --steps N --batch B --seq L --lr X --threads T
                                             the peer: transformers' Llama in PyTorch eager, with torch.optim.AdamW;
                                             prints one JSON object with ms_per_step and the loss of each step

Needs torch 2.13, transformers 4.57.1 and numpy.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
WARM_UP = 3  # Steps that are not counted.
SHAPES = {  # What a small model on two cores may look like: the first is bound by its layers, the second by its vocabulary.
    "4 layers of 256, vocabulary 256": dict(
        model=dict(vocab_size=256, hidden_size=256, intermediate_size=704, num_hidden_layers=4),
        run=dict(steps=23, batch=8, seq=128)),
    "2 layers of 256, vocabulary 8192": dict(
        model=dict(vocab_size=8192, hidden_size=256, intermediate_size=704, num_hidden_layers=2),
        run=dict(steps=15, batch=4, seq=128)),
}


def rows_of(tokens, step, batch, seq):
    """The rows of a step, one after the other from the file, which begins anew at its end."""
    last = len(tokens) - seq - 1
    begins = [(step * batch + row) * seq % last for row in range(batch)]
    return [tokens[begin:begin + seq + 1] for begin in begins]


def train(options):
    import numpy
    import torch
    from transformers import LlamaForCausalLM

    torch.set_num_threads(options.threads)
    model = LlamaForCausalLM.from_pretrained(options.model, attn_implementation="sdpa").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    tokens = numpy.fromfile(options.data, dtype="<u2").astype("int64")
    times, losses = [], []
    for step in range(options.steps):
        rows = torch.from_numpy(numpy.stack(rows_of(tokens, step, options.batch, options.seq)))
        inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    print(json.dumps(dict(ms_per_step=statistics.median(times[WARM_UP:]) * 1e3, loss=losses)))


def make_inputs(folder, shape):
    import numpy
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=2048, **shape)
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    tokens = numpy.random.default_rng(0).integers(0, shape["vocab_size"], 1 << 16)
    tokens.astype("<u2").tofile(folder / "tokens.bin")


def flags_of(folder, run, threads):
    named = dict(model=folder / "model", data=folder / "tokens.bin", lr=1e-3, threads=threads, **run)
    return [word for name, value in named.items() for word in (f"--{name}", str(value))]


def output_of(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def run_ours(tessera, folder, run, threads):
    words = [tessera, "train", *flags_of(folder, run, threads), "--nproc", "1", "--weight-decay", "0.1", "--no-shuffle", "--no-clip",
             "--dtype", "fp32", "--run-dir", str(folder / "run"), "--overwrite"]
    output_of(words)
    steps = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return dict(ms_per_step=statistics.median(step["ms"] for step in steps[WARM_UP:]), loss=[step["loss"] for step in steps])


def run_peer(script, folder, run, threads):
    words = [sys.executable, "-W", "ignore", script, "train", "--mode", "single", *flags_of(folder, run, threads)]
    return json.loads(output_of(words))


def compare(tessera, peer):
    print(f"{'ms a step, median; best of ' + str(ROUNDS) + ' runs':50}{'ours':>8}{'torch':>8}{'ours/torch':>12}{'losses differ by':>18}")
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            make_inputs(folder, shape["model"])
            for threads in (1, 2):
                ours, torch = [], []
                for _ in range(ROUNDS):  # In turns, so that noise hits both.
                    ours.append(run_ours(tessera, folder, shape["run"], threads))
                    torch.append(run_peer(peer, folder, shape["run"], threads))
                best = [min(run["ms_per_step"] for run in side) for side in (ours, torch)]
                apart = max(abs(a - b) for a, b in zip(ours[0]["loss"], torch[0]["loss"], strict=True))
                label = f"{name}, {threads} thread{'s' * (threads > 1)}"
                print(f"{label:50}{best[0]:>8.1f}{best[1]:>8.1f}{best[0] / best[1]:>12.2f}{apart:>18.1e}", flush=True)


def main():
    if len(sys.argv) in (3, 4) and sys.argv[1] == "compare":
        return compare(sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else __file__)
    if len(sys.argv) < 2 or sys.argv[1] != "train":
        sys.exit(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["single"], default="single")
    for name, kind in dict(model=str, data=str, steps=int, batch=int, seq=int, lr=float, threads=int).items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    train(parser.parse_args(sys.argv[2:]))


if __name__ == "__main__":
    main()
