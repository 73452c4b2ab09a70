"""parity_table.py WORK [TABLE]: compares what tests/e2e/parity has left in WORK: logits of every model and of an export with
transformers', and losses, balancing losses and weights of every run with those of transformers and of one process.
"""
import json
import pathlib
import sys
import tomllib

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

# float32 has 7 digits, of which 20 steps leave a loss of 4 at least 5.
TOLERANCE = 1e-4
# AdamW divides each gradient by its own size, so one that is little more than rounding still moves its weight by up to lr = 1e-3 per step.
# This is a fifth of one such step.
WEIGHT_TOLERANCE = 2e-4
HEAD = """| model | layout | ranks | losses beside one process | losses beside PyTorch | weights beside PyTorch |
|---|---|---|---|---|---|"""


def weights_of(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def largest(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max((ours[key] - theirs[key]).abs().max().item() for key in ours)


def logits_of(folder, tokens):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        return model(input_ids=tokens).logits


def compare_folders(work):
    for theirs in sorted((work / "models").iterdir()):
        copy = work / "copies" / theirs.name
        answers = load_file(theirs / "answers.safetensors")
        logits = load_file(f"{copy}.logits.safetensors")["logits"]
        worst = max((logits - other).abs().max().item() for other in (answers["logits"], logits_of(copy, answers["tokens"])))
        kinds = [json.loads((folder / "config.json").read_text())["architectures"] for folder in (copy, theirs)]
        print(f"{theirs.name}: logits differ by {worst:.1e}")
        assert worst < TOLERANCE and kinds[0] == kinds[1], kinds


def compare_export(work):
    export = work / "exports" / "llama_tied"
    assert len(list(export.glob("model-*.safetensors"))) > 1
    assert largest(weights_of(export), weights_of(work / "runs" / "llama_tied" / "model")) == 0
    tokens = load_file(work / "models" / "llama_tied" / "answers.safetensors")["tokens"]
    assert torch.equal(logits_of(export, tokens), logits_of(work / "runs" / "llama_tied" / "model", tokens))


def steps_of(run):
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(20))
    return steps


def difference(steps, others):
    """Of losses and, where there are experts, of balancing losses."""
    keys = [key for key in ("loss", "aux_loss") if others[0].get(key) is not None]
    assert len(steps) == len(others)
    return max(abs(step[key] - other[key]) for key in keys for step, other in zip(steps, others))


def row(work, peer, name, flags):
    model = name.split(".")[0]
    run = work / "runs" / name
    steps = steps_of(run)
    alone = difference(steps, steps_of(work / "runs" / model))
    losses = difference(steps, peer[model])
    weights = largest(weights_of(run / "model"), weights_of(work / "after" / model))
    ranks = tomllib.loads((run / "config.toml").read_text())["parallel"]["nproc"]
    text = f"| {model} | `{flags}` | {ranks} | {alone:.1e} | {losses:.1e} | {weights:.1e} |"
    return text, max(alone, losses) < TOLERANCE and weights < WEIGHT_TOLERANCE


def main():
    work = pathlib.Path(sys.argv[1])
    compare_folders(work)
    compare_export(work)
    peer = json.loads((work / "peer.json").read_text())
    for name, steps in peer.items():  # Something was learnt, so that a wrong gradient would show.
        assert steps[-1]["loss"] < steps[0]["loss"] - 0.1, name
    assert peer["mixtral_idle"][0]["idle"] >= 4
    layouts = [(model, "--nproc 1") for model in peer]
    layouts += [line.split("\t") for line in (work / "layouts").read_text().splitlines()]
    assert len(layouts) >= 25
    rows = [row(work, peer, name, flags) for name, flags in layouts]
    table = "\n".join([HEAD] + [text for text, _ in rows]) + "\n"
    print(table)
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(table)
    wrong = [text for text, right in rows if not right]
    assert not wrong, f"losses differ by {TOLERANCE} or weights by {WEIGHT_TOLERANCE}:\n" + "\n".join(wrong)


if __name__ == "__main__":
    main()
