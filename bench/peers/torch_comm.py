"""Our communication beside torch.distributed's, both on Gloo, in one run.

    torch_comm.py compare PROGRAM          all ranks of both sides, in turns, and a table of the best figures
    torch_comm.py setup|transfer FOLDER    one rank of the peer: what comm_bench.cpp does, step by step
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

PAIRS = 20
SMALL = 1024  # 4 KiB of fp32.
LARGE = 16 * 1024 * 1024  # 64 MiB of fp32.
ROUNDS = 3
FIGURES = [  # Name, what it is, whether more is better.
    ("setup_s", "8 ranks: from init to 20 groups of two in use, s", False),
    ("setup_and_world_s", "the same, and the group of all ranks in use, s", False),
    ("latency_us", "2 ranks: all_reduce of 4 KiB, median, us", False),
    ("bandwidth_gb_s", "2 ranks: all_reduce of 64 MiB, best, GB/s", True),
]


def wait_at_start_line(folder, rank, world_size):
    """Through files, not through what is measured: a rank that starts late must not count as waiting."""
    (pathlib.Path(folder) / str(rank)).touch()
    while len(os.listdir(folder)) < world_size:
        time.sleep(0.001)


def rank_pairs(world_size):
    pairs = ((rank, (rank + distance) % world_size) for distance in range(1, world_size) for rank in range(world_size))
    return [sorted(next(pairs)) for _ in range(PAIRS)]


def use(torch, group):
    torch.distributed.all_reduce(torch.zeros(1), group=group)


def slowest_rank(torch, seconds):
    worst = torch.full((1,), seconds, dtype=torch.float64)
    torch.distributed.all_reduce(worst, op=torch.distributed.ReduceOp.MAX)
    return worst.item()


def measure_setup(torch, rank, world_size):
    dist = torch.distributed
    start = time.perf_counter()
    dist.init_process_group("gloo")
    pairs = rank_pairs(world_size)
    groups = [dist.new_group(pair) for pair in pairs]
    for pair, group in zip(pairs, groups):
        if rank in pair:
            use(torch, group)
    pairs_end = time.perf_counter()
    use(torch, None)
    world_end = time.perf_counter()
    return {
        "setup_s": slowest_rank(torch, pairs_end - start),
        "setup_and_world_s": slowest_rank(torch, world_end - start),
    }


def sorted_times(warm_ups, runs, body):
    for _ in range(warm_ups):
        body()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return sorted(times)


def measure_transfer(torch, rank, world_size):
    dist = torch.distributed
    dist.init_process_group("gloo")
    small, large = torch.zeros(SMALL), torch.zeros(LARGE)
    latencies = sorted_times(200, 2000, lambda: dist.all_reduce(small))
    durations = sorted_times(1, 5, lambda: dist.all_reduce(large))
    return {
        "latency_us": latencies[len(latencies) // 2] * 1e6,
        "bandwidth_gb_s": large.nbytes / durations[0] / 1e9,
    }


def run_rank(what, folder):
    import torch.distributed  # Here, as compare has no use for it, and it takes seconds.

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    measure = measure_setup if what == "setup" else measure_transfer
    wait_at_start_line(folder, rank, world_size)
    figures = measure(torch, rank, world_size)
    if rank == 0:
        print(json.dumps(figures))
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(command, what, world_size):
    """The figures that rank 0 printed."""
    shared = {"WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size, "OMP_NUM_THREADS": 1,
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(world_size):
            variables = {**shared, "RANK": rank, "LOCAL_RANK": rank}
            environment = os.environ | {name: str(value) for name, value in variables.items()}
            ranks.append(subprocess.Popen([*command, what, folder], env=environment, text=True, stdout=subprocess.PIPE))
        try:
            outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()  # Does nothing to those that have ended.
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{command}: a rank failed")
    return json.loads(outputs[0])


def compare(program):
    sides = {"ours": [program], "torch": [sys.executable, "-W", "ignore", __file__]}
    seen = {(side, name): [] for side in sides for name, _, _ in FIGURES}
    for what, world_size in (("setup", 8), ("transfer", 2)):
        for _ in range(ROUNDS):  # In turns, so that noise hits both.
            for side, command in sides.items():
                figures = run_ranks(command, what, world_size)
                print(json.dumps({"side": side} | figures), flush=True)
                for name, value in figures.items():
                    seen[side, name].append(value)
    print(f"\n{f'best of {ROUNDS}':52}{'ours':>10}{'torch':>10}{'times better':>14}")
    for name, text, more_is_better in FIGURES:
        best = max if more_is_better else min
        ours, torch = best(seen["ours", name]), best(seen["torch", name])
        ratio = ours / torch if more_is_better else torch / ours
        print(f"{text:52}{ours:>10.4g}{torch:>10.4g}{ratio:>14.2f}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("compare", "setup", "transfer"):
        sys.exit(__doc__)
    what, argument = sys.argv[1:]
    if what == "compare":
        compare(argument)
    else:
        run_rank(what, argument)


if __name__ == "__main__":
    main()
