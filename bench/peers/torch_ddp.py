"""Our data parallelism beside PyTorch's DistributedDataParallel, both on Gloo, in one run.

    torch_ddp.py compare PROGRAM    all ranks of both sides, in turns, and a table of the best figures
    torch_ddp.py step FOLDER        one rank of the peer: what ddp_ranks.cpp does, step by step
"""

import json
import os
import statistics
import sys
import time

from torch_comm import run_ranks, slowest_rank, wait_at_start_line

LAYERS = 8
WARM_UPS = 5
RATE = 1e-3
ROUNDS = 5
SIZES = [("small", 256, 32, 200), ("large", 1024, 64, 30)]  # Name, width, rows, steps.
RANKS = (2, 4)


def model_of(torch, width):
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def time_steps(torch, width, rows, steps):
    """The median step in wall-clock time, and the CPU time of all threads, on average; the slowest rank counts."""
    # With gradients as views, the faster of its two ways.
    model = torch.nn.parallel.DistributedDataParallel(model_of(torch, width), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, foreach=True)
    x = torch.randn(rows, width)
    times, cpu_start = [], 0
    for step in range(-WARM_UPS, steps):
        if step == 0:
            cpu_start = time.process_time()
        start = time.perf_counter()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= 0:
            times.append(time.perf_counter() - start)
    cpu = (time.process_time() - cpu_start) / steps
    return slowest_rank(torch, statistics.median_high(times)), slowest_rank(torch, cpu)


def run_rank(folder):
    import torch.distributed  # Here, as compare has no use for it, and it takes seconds.

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    wait_at_start_line(folder, rank, int(os.environ["WORLD_SIZE"]))
    torch.distributed.init_process_group("gloo")
    figures = {}
    for name, *size in SIZES:
        median, cpu = time_steps(torch, *size)
        figures |= {f"{name}_step_ms": median * 1e3, f"{name}_step_cpu_ms": cpu * 1e3}
    if rank == 0:
        print(json.dumps(figures))
    torch.distributed.destroy_process_group()


def compare(program):
    sides = {"ours": [program], "torch": [sys.executable, "-W", "ignore", __file__]}
    for world_size in RANKS:
        seen = {}
        for _ in range(ROUNDS):  # In turns, so that noise hits both.
            for side, command in sides.items():
                for name, value in run_ranks(command, "step", world_size).items():
                    seen.setdefault(name, {}).setdefault(side, []).append(value)
        print(f"\n{f'{world_size} ranks, {ROUNDS} starts':30}{'ours':>10}{'torch':>10}{'times better':>14}")
        for name, values in seen.items():
            for what, of in (("best", min), ("median", statistics.median)):
                ours, torch = of(values["ours"]), of(values["torch"])
                print(f"{f'{name}, {what}':30}{ours:>10.4g}{torch:>10.4g}{torch / ours:>14.2f}", flush=True)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("compare", "step"):
        sys.exit(__doc__)
    if sys.argv[1] == "compare":
        compare(sys.argv[2])
    else:
        run_rank(sys.argv[2])


if __name__ == "__main__":
    main()
