"""Our distributed tensors beside PyTorch's DTensor, both on Gloo, in one run.

    torch_dtensor.py compare PROGRAM             all ranks of both sides, in turns, and a table of the best figures
    torch_dtensor.py transfer|overhead FOLDER    one rank of the peer: what dtensor_ranks.cpp does, step by step
"""

import json
import os
import sys
import time

from torch_comm import run_ranks, slowest_rank, wait_at_start_line

FAKE_RANKS = 4
TINY = 8  # Rows and columns.
CALLS = 2000
ROUNDS = 3
RUNS = [("transfer", 2), ("transfer", 4), ("overhead", 1)]  # What, and on how many ranks.


def transitions():
    from torch.distributed.tensor import Partial, Replicate, Shard

    return {
        "shard0_to_replicate": (Shard(0), Replicate()),
        "shard0_to_shard1": (Shard(0), Shard(1)),
        "partial_to_shard0": (Partial(), Shard(0)),
    }


def source(torch, mesh, rows, columns, origin):
    from torch.distributed.tensor import DTensor

    local = torch.ones(rows if origin.is_partial() else rows // mesh.size(), columns)
    return DTensor.from_local(local, mesh, [origin], run_check=False)


def finish(tensor):
    """Waits for what is still under way, as ours does."""
    tensor = tensor.to_local()
    return tensor.wait() if hasattr(tensor, "wait") else tensor


def best_time(torch, runs, body):
    body()
    best = float("inf")
    for _ in range(runs):
        torch.distributed.barrier()
        start = time.perf_counter()
        body()
        best = min(best, slowest_rank(torch, time.perf_counter() - start))
    return best


def measure_transfer(torch):
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    figures = {}
    for mebibytes, rows in ((1, 512), (64, 4096)):
        columns = mebibytes * 1024 * 1024 // 4 // rows
        for name, (origin, target) in transitions().items():
            tensor = source(torch, mesh, rows, columns, origin)
            runs = 30 if mebibytes == 1 else 5
            seconds = best_time(torch, runs, lambda: finish(tensor.redistribute(mesh, [target])))
            figures[f"{name}_{mebibytes}mib_ms"] = seconds * 1e3
    torch.distributed.destroy_process_group()
    return figures


def measure_overhead(torch):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=FAKE_RANKS)
    mesh = torch.distributed.init_device_mesh("cpu", (FAKE_RANKS,))
    figures = {}
    for name, (origin, target) in transitions().items():
        tensor = source(torch, mesh, TINY, TINY, origin)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(CALLS):
                finish(tensor.redistribute(mesh, [target]))
            best = min(best, (time.perf_counter() - start) / CALLS)
        figures[f"{name}_call_us"] = best * 1e6
    return figures


def run_rank(what, folder):
    import torch.distributed  # Here, as compare has no use for it, and it takes seconds.
    import torch.distributed.tensor

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    wait_at_start_line(folder, rank, int(os.environ["WORLD_SIZE"]))
    figures = measure_transfer(torch) if what == "transfer" else measure_overhead(torch)
    if rank == 0:
        print(json.dumps(figures))


def compare(program):
    sides = {"ours": [program], "torch": [sys.executable, "-W", "ignore", __file__]}
    for what, world_size in RUNS:
        seen = {}
        for _ in range(ROUNDS):  # In turns, so that noise hits both.
            for side, command in sides.items():
                for name, value in run_ranks(command, what, world_size).items():
                    seen.setdefault(name, {}).setdefault(side, []).append(value)
        print(f"\n{f'{what}, {world_size} ranks, best of {ROUNDS}':42}{'ours':>10}{'torch':>10}{'times better':>14}")
        for name, values in seen.items():
            ours, torch = min(values["ours"]), min(values["torch"])
            print(f"{name:42}{ours:>10.4g}{torch:>10.4g}{torch / ours:>14.2f}", flush=True)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("compare", "transfer", "overhead"):
        sys.exit(__doc__)
    what, argument = sys.argv[1:]
    if what == "compare":
        compare(argument)
    else:
        run_rank(what, argument)


if __name__ == "__main__":
    main()
