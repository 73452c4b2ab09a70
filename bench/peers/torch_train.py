"""Steps of `tessera train` beside those of PyTorch: the same Llama, tokens and optimizer, in one run.

    torch_train.py compare TESSERA [PEER]      both sides in turns on one and two threads and on several ranks, and a table;
                                               PEER is another script with this one's `train`
    torch_train.py gpu TESSERA [PEER] [SHAPE]  Llamas of 0.13 to 3.1 billion parameters in bf16 on a GPU, beside compiled PyTorch; a PEER here
                                               also takes --master (float32 copies of the weights) and --fp8, in which they are compared, too;
                                               SHAPE is 0.95, 0.13 or 3.1: that model alone
    torch_train.py losses TESSERA [PEER]       20 steps in fp32 on the GPU, or on the CPU if there is none: fails if losses differ
    torch_train.py train --mode single|ddp|fsdp|tp|pp --model DIR --data FILE --steps N --batch B --seq L --lr X --threads T
                         [--nproc N] [--microbatches M] [--dtype fp32|bf16] [--compile]
                                             the peer: transformers' Llama in PyTorch eager, with torch.optim.AdamW, alone,
                                             under DistributedDataParallel, sharded by fully_shard (FSDP2), with
                                             parallelize_module's tensor parallelism, or under Schedule1F1B; prints one JSON object with ms_per_step and the loss of each step

Needs torch, transformers and numpy. bench/README.md has figures of torch 2.13 on CPUs and 2.11 on GPUs, with transformers 4.57.1.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
WARM_UP = 3  # Steps that are not counted.
MICROBATCHES = 4
SCHEDULES = {2: ("1F1B", "ZBVZeroBubble"), 4: ("1F1B", "ZBH1")}  # Ours by ranks; the peer runs 1F1B.
SHAPES = {  # What a small model on two cores may look like: the first is bound by its layers, the second by its vocabulary.
    "4 layers of 256, vocabulary 256": dict(
        model=dict(vocab_size=256, hidden_size=256, intermediate_size=704, num_hidden_layers=4),
        run=dict(steps=23, batch=8, seq=128), ranks=True),
    "2 layers of 256, vocabulary 8192": dict(
        model=dict(vocab_size=8192, hidden_size=256, intermediate_size=704, num_hidden_layers=2),
        run=dict(steps=15, batch=4, seq=128)),
}
GPU_SHAPES = {
    "0.95 billion parameters, 8 × 2,048 tokens": dict(
        model=dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=16), heads=16,
        run=dict(steps=23, batch=8, seq=2048), rounds=2),
    "0.13 billion, 8 × 512 tokens": dict(
        model=dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12), heads=12,
        run=dict(steps=63, batch=8, seq=512), rounds=2),
    "3.1 billion, 4 × 2,048 tokens": dict(
        model=dict(vocab_size=32000, hidden_size=3072, intermediate_size=8192, num_hidden_layers=26), heads=24,
        run=dict(steps=13, batch=4, seq=2048), rounds=1, ours=[["--recompute", "full"]]),  # The peer has none.
}


def rows_of(tokens, step, batch, seq):
    """The rows of a step, one after the other from the file, which begins anew at its end."""
    last = len(tokens) - seq - 1
    begins = [(step * batch + row) * seq % last for row in range(batch)]
    return [tokens[begin:begin + seq + 1] for begin in begins]


def loss_of(logits, targets):
    import torch

    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def plain_step(model, options, rank):
    """All rows in one process, or each rank its share of them under DistributedDataParallel or FSDP2."""
    import torch

    ranks = 1 if options.mode == "tp" else options.nproc  # Ranks of tensor parallelism see all rows.
    share = options.batch // ranks
    replica = sharded(model, ranks) if options.mode == "fsdp" else model
    if options.mode == "tp":
        split_layers(model, options.nproc)
    if options.mode == "ddp":
        replica = torch.nn.parallel.DistributedDataParallel(model)

    def step(inputs, targets):
        mine = slice(rank % ranks * share, (rank % ranks + 1) * share)
        loss = loss_of(replica(input_ids=inputs[mine], use_cache=False).logits, targets[mine])
        loss.backward()
        return loss.detach()

    def over_all(loss):
        if ranks > 1:
            torch.distributed.all_reduce(loss)
        return loss / ranks

    return model, step, over_all


def sharded(model, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def split_layers(model, ranks):
    """The weights of every block over the ranks, without sequence parallelism; the embedding and the head stay whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    rows = ("self_attn.o_proj", "mlp.down_proj")
    plan = {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}}
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.model.layers:
        parallelize_module(layer, mesh, plan)


def pipeline_step(model, options, rank):
    """The layers shared out evenly, under PyTorch's own 1F1B."""
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    ranks, layers = options.nproc, model.model.layers
    first, last = rank == 0, rank == ranks - 1
    begin, end = (len(layers) * at // ranks for at in (rank, rank + 1))

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = model.model.embed_tokens if first else torch.nn.Identity()
            self.layers = layers[begin:end]
            self.rotary = model.model.rotary_emb
            self.head = torch.nn.Sequential(model.model.norm, model.lm_head) if last else torch.nn.Identity()

        def forward(self, x):
            x = self.embedding(x)
            positions = torch.arange(x.size(1)).unsqueeze(0)
            angles = self.rotary(x, positions)
            for layer in self.layers:
                x = layer(x, attention_mask=None, position_ids=positions, position_embeddings=angles)
                x = x[0] if isinstance(x, tuple) else x
            return self.head(x)

    part = Part()
    stage = PipelineStage(part, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, options.microbatches, loss_fn=loss_of)

    def step(inputs, targets):
        losses = []
        schedule.step(*([inputs] if first else []), **(dict(target=targets, losses=losses) if last else {}))
        return torch.stack(losses).mean().detach() if last else torch.zeros(())

    def to_all(loss):
        torch.distributed.broadcast(loss, ranks - 1)
        return loss

    return part, step, to_all


def train_rank(rank, options, rendezvous):
    import numpy
    import torch
    from transformers import LlamaForCausalLM

    torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = dict(fp32=torch.float32, bf16=torch.bfloat16)[options.dtype]
    if options.nproc > 1:
        torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=options.nproc)
    model = LlamaForCausalLM.from_pretrained(options.model, attn_implementation="sdpa", dtype=dtype).train().to(device)
    model = torch.compile(model) if options.compile else model
    module, step_of, loss_of_all = (pipeline_step if options.mode == "pp" else plain_step)(model, options, rank)
    optimizer = torch.optim.AdamW(module.parameters(), lr=options.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
                                  foreach=False if options.mode == "tp" else None)  # It does not mix DTensors and tensors.
    tokens = numpy.fromfile(options.data, dtype="<u2").astype("int64")
    times, losses = [], []
    for step in range(options.steps):
        rows = torch.from_numpy(numpy.stack(rows_of(tokens, step, options.batch, options.seq)))
        inputs, targets = (part.contiguous().to(device) for part in (rows[:, :-1], rows[:, 1:]))
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = step_of(inputs, targets)
        optimizer.step()
        losses.append(loss_of_all(loss).item())
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(dict(ms_per_step=statistics.median(times[WARM_UP:]) * 1e3, loss=losses)))
    if options.nproc > 1:
        torch.distributed.barrier()
        sys.stdout.flush()
        os._exit(0)  # destroy_process_group() now and then never returns.


def train(options):
    if options.nproc == 1:
        return train_rank(0, options, None)
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train_rank, (options, f"file://{folder}/meeting"), nprocs=options.nproc)


def make_inputs(folder, shape, heads=8, device="cpu"):
    import numpy
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=2048, **shape)
    with torch.device(device):
        LlamaForCausalLM(config).save_pretrained(folder / "model")
    if device == "cuda":
        torch.cuda.empty_cache()  # Both sides need the memory.
    tokens = numpy.random.default_rng(0).integers(0, shape["vocab_size"], 1 << 16)
    tokens.astype("<u2").tofile(folder / "tokens.bin")


def flags_of(folder, run, threads, nproc):
    named = dict(model=folder / "model", data=folder / "tokens.bin", lr=1e-3, threads=threads, nproc=nproc, **run)
    return [word for name, value in named.items() for word in (f"--{name}", str(value))]


def output_of(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def run_ours(tessera, folder, flags):
    words = [tessera, "train", *flags, "--weight-decay", "0.1", "--no-shuffle", "--no-clip", "--run-dir", str(folder / "run"),
             "--overwrite"]
    output_of(words)
    steps = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return dict(ms_per_step=statistics.median(step["ms"] for step in steps[WARM_UP:]), loss=[step["loss"] for step in steps],
                mem_bytes=max(step["mem_bytes"] for step in steps))


def run_peer(script, mode, flags):
    words = [sys.executable, "-W", "ignore", script, "train", "--mode", mode, *flags]
    return json.loads(output_of(words))


def print_row(label, ours, torch, steps=None):
    """The best runs of both, and how far the losses of the first steps, or of all, are apart."""
    best = [min(run["ms_per_step"] for run in side) for side in (ours, torch)]
    apart = max(abs(a - b) for a, b in zip(ours[0]["loss"][:steps], torch[0]["loss"][:steps], strict=True))
    print(f"{label:60}{best[0]:>8.1f}{best[1]:>8.1f}{best[0] / best[1]:>12.2f}{apart:>18.1e}", flush=True)


def in_turns(*sides, rounds=ROUNDS):
    """The runs of each, in turns, so that noise hits all."""
    return zip(*[[run() for run in sides] for _ in range(rounds)])


def compare_runs(label, ours_of, peer_of):
    print_row(label, *in_turns(ours_of, peer_of))


def compare_threads(tessera, peer, name, shape, folder):
    for threads in (1, 2):
        flags = flags_of(folder, shape["run"], threads, 1)
        compare_runs(f"{name}, {threads} thread{'s' * (threads > 1)}",
                     lambda: run_ours(tessera, folder, flags), lambda: run_peer(peer, "single", flags))


def compare_ranks(tessera, peer, shape, folder):
    for ranks in (2, 4):
        flags = flags_of(folder, shape["run"], 1, ranks)
        compare_runs(f"data parallel, {ranks} ranks", lambda: run_ours(tessera, folder, [*flags, "--dp", str(ranks)]),
                     lambda: run_peer(peer, "ddp", flags))
        compare_runs(f"fully sharded, {ranks} ranks",
                     lambda: run_ours(tessera, folder, [*flags, "--dp", str(ranks), "--dp-type", "fsdp"]),
                     lambda: run_peer(peer, "fsdp", flags))
        if ranks == 2:
            for extra in ([], ["--no-sp"]):
                compare_runs(" ".join(["tensor parallel, 2 ranks", *extra]),
                             lambda: run_ours(tessera, folder, [*flags, "--tp", "2", *extra]), lambda: run_peer(peer, "tp", flags))
        flags += ["--microbatches", str(MICROBATCHES)]
        for schedule in SCHEDULES[ranks]:
            words = [*flags, "--pp", str(ranks), "--schedule", schedule]
            compare_runs(f"pipeline, {ranks} ranks, {schedule} against 1F1B", lambda: run_ours(tessera, folder, words),
                         lambda: run_peer(peer, "pp", flags))


def print_head():
    print(f"{'ms per step, median; best of ' + str(ROUNDS) + ' runs':60}{'ours':>8}{'torch':>8}{'ours/torch':>12}{'losses differ by':>18}")


def compare(tessera, peer):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # A peer takes a GPU where it finds one.
    print_head()
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            make_inputs(folder, shape["model"])
            compare_threads(tessera, peer, name, shape, folder)
            if shape.get("ranks"):
                compare_ranks(tessera, peer, shape, folder)


def told(label, run):
    """The run, which takes a minute, as it ends."""
    made = run()
    print(f"# {label}: {made['ms_per_step']:.1f} ms", flush=True)
    return made


def print_gpu_row(label, ours, torch):
    """The best runs of both. Their first losses are comparable; updates of bf16 weights differ from those of float32 copies."""
    best = [min(side, key=lambda run: run["ms_per_step"]) for side in (ours, torch)]
    memory = [f"{run['mem_bytes'] / 2**30:.2f} GiB" if "mem_bytes" in run else "–" for run in best]
    columns = [f"{run['ms_per_step']:>8.1f} ms {held:>10}" for run, held in zip(best, memory, strict=True)]
    ratio = best[0]["ms_per_step"] / best[1]["ms_per_step"]
    print(f"{label:72}{columns[0]}{columns[1]}{ratio:>8.3f}{abs(ours[0]['loss'][0] - torch[0]['loss'][0]):>10.1e}", flush=True)


def compare_gpu_shape(tessera, peer, name, shape, folder):
    make_inputs(folder, shape["model"], shape["heads"], "cuda")
    flags = [*flags_of(folder, shape["run"], 1, 1), "--dtype", "bf16"]
    ours = [[], ["--cuda-graphs"], *shape.get("ours", [])]
    theirs = [["--compile"]]
    if not os.path.samefile(peer, __file__):
        ours += [["--fp8", "rowwise"]]
        theirs = [["--compile", "--master"], ["--compile", "--fp8"]]
    run = {"ours": lambda extra: run_ours(tessera, folder, [*flags, "--device", "cuda", *extra]),
           "peer": lambda extra: run_peer(peer, "single", [*flags, *extra])}
    sides = [("ours", extra) for extra in ours] + [("peer", extra) for extra in theirs]
    runs = in_turns(*[lambda who=who, extra=extra: told(" ".join([name, who, *extra]), lambda: run[who](extra)) for who, extra in sides],
                    rounds=shape["rounds"])
    made = [list(side) for side in runs]
    for index, extra in enumerate(ours):
        which = 1 if "--fp8" in extra else 0
        print_gpu_row(" ".join([name, *extra, "| peer", *theirs[which]]), made[index], made[len(ours) + which])


def compare_gpu(tessera, *words):
    sizes = {name.split()[0]: name for name in GPU_SHAPES}
    chosen = [sizes[word] for word in words if word in sizes]
    peer = next((word for word in words if word not in sizes), __file__)
    if not os.path.exists(peer):
        sys.exit(f"'{peer}' is no script, and no shape: choose from {', '.join(sizes)}")
    shapes = {name: GPU_SHAPES[name] for name in chosen or GPU_SHAPES}
    print(f"{'bf16, medians of steps; best of 2 runs, or 1 of the largest':72}{'ours':>22}{'torch':>22}{'ratio':>8}{'losses':>10}")
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as temporary:
            compare_gpu_shape(tessera, peer, name, shape, pathlib.Path(temporary))


def check_losses(tessera, peer):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    most = 1e-4  # Sums of float32 in another order change about the seventh digit, and 20 steps enlarge that.
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        shape = next(iter(SHAPES.values()))
        make_inputs(folder, shape["model"])
        flags = flags_of(folder, dict(shape["run"], steps=20), 1, 1)
        ours = run_ours(tessera, folder, [*flags, "--device", device])["loss"]
        theirs = run_peer(peer, "single", flags)["loss"]
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
    print(f"20 steps in fp32 on {device}: losses from {ours[0]:.4f} to {ours[-1]:.4f}, at most {apart:.1e} apart, relatively")
    if apart > most:
        sys.exit(f"losses differ by more than {most}:\nours  {ours}\ntorch {theirs}")


def main():
    verb, words = "".join(sys.argv[1:2]), sys.argv[2:]
    comparisons = dict(compare=compare, gpu=compare_gpu, losses=check_losses)
    if verb in comparisons and 1 <= len(words) <= (3 if verb == "gpu" else 2):
        return comparisons[verb](words[0], *(words[1:] or [__file__]))
    if verb != "train":
        sys.exit(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["single", "ddp", "fsdp", "tp", "pp"], default="single")
    parser.add_argument("--nproc", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=MICROBATCHES)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    for name, kind in dict(model=str, data=str, steps=int, batch=int, seq=int, lr=float, threads=int).items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    train(parser.parse_args(sys.argv[2:]))


if __name__ == "__main__":
    main()
