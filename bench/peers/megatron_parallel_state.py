"""Our parallel_state beside Megatron-Core's, in one run.

    megatron_parallel_state.py compare BENCH RANKS       parallel_state_bench and parallel_state_ranks beside the peer
    megatron_parallel_state.py fake WORLD                the peer as rank 0 of a fake world: seconds, best of 3
    megatron_parallel_state.py initialise FOLDER         one of eight Gloo ranks of the peer: what parallel_state_ranks.cpp does
"""

import json
import os
import statistics
import subprocess
import sys
import time

from torch_comm import run_ranks, slowest_rank, wait_at_start_line

WORLDS = (64, 1024, 16384, 65536)
ROUNDS = 3
FIGURES = {
    "initialise_s": "initialize_model_parallel, s",
    "initialise_and_use_s": "the same, and each group in use, s",
    "connect_and_initialise_s": "from the first connection to the last group, s",
}


def initialize(parallel_state, tp, pp, cp, ep):
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
        context_parallel_size=cp,
        expert_model_parallel_size=ep,
        create_gloo_process_groups=False,
    )


def ask_all(ps):
    """The getters that parallel_state_bench.cpp asks."""
    groups = [
        ps.get_model_parallel_group(), ps.get_tensor_model_parallel_group(), ps.get_pipeline_model_parallel_group(),
        ps.get_data_parallel_group(), ps.get_data_parallel_group(True), ps.get_data_parallel_group(True, True),
        ps.get_context_parallel_group(), ps.get_embedding_group(), ps.get_position_embedding_group(),
        ps.get_amax_reduction_group(), ps.get_tensor_and_data_parallel_group(True, True),
        ps.get_tensor_and_context_parallel_group(), ps.get_expert_model_parallel_group(),
        ps.get_expert_tensor_parallel_group(), ps.get_expert_tensor_and_model_parallel_group(),
        ps.get_expert_tensor_model_pipeline_parallel_group(), ps.get_expert_data_parallel_group(),
        ps.get_intra_distributed_optimizer_instance_group(),
    ]
    numbers = [
        ps.get_tensor_model_parallel_world_size(), ps.get_pipeline_model_parallel_world_size(),
        ps.get_data_parallel_world_size(), ps.get_data_parallel_world_size(True), ps.get_context_parallel_world_size(),
        ps.get_tensor_and_context_parallel_world_size(), ps.get_expert_model_parallel_world_size(),
        ps.get_expert_tensor_parallel_world_size(), ps.get_expert_tensor_and_model_parallel_world_size(),
        ps.get_expert_data_parallel_world_size(), ps.get_tensor_model_parallel_rank(),
        ps.get_pipeline_model_parallel_rank(), ps.get_data_parallel_rank(), ps.get_data_parallel_rank(True),
        ps.get_context_parallel_rank(), ps.get_tensor_and_context_parallel_rank(), ps.get_expert_model_parallel_rank(),
        ps.get_expert_tensor_parallel_rank(), ps.get_expert_tensor_and_model_parallel_rank(),
        ps.get_expert_data_parallel_rank(), ps.get_tensor_model_parallel_src_rank(), ps.get_model_parallel_src_rank(),
        ps.get_data_parallel_src_rank(), ps.get_expert_model_parallel_src_rank(),
        ps.get_pipeline_model_parallel_first_rank(), ps.get_pipeline_model_parallel_last_rank(),
        ps.get_pipeline_model_parallel_next_rank(), ps.get_pipeline_model_parallel_prev_rank(),
        ps.is_pipeline_first_stage(), ps.is_pipeline_last_stage(), ps.is_rank_in_embedding_group(),
        ps.is_rank_in_position_embedding_group(), len(ps.get_all_ranks()),
    ]
    return sum(group.size() for group in groups) + sum(numbers)


def measure_fake(world):
    import torch.distributed as dist
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    size = 4 if world < 128 else 8
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        initialize(parallel_state, size, size, 2, size)
        ask_all(parallel_state)
        times.append(time.perf_counter() - start)
        parallel_state.destroy_model_parallel()
    print(json.dumps({"world": world, "best_s": min(times)}))


def member_groups(parallel_state):
    """The groups of this rank that were made: the registry, less the default group."""
    return [group for group in parallel_state._global_process_group_list if group is not None]


def measure_rank(folder):
    import torch
    from megatron.core import parallel_state

    wait_at_start_line(folder, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    start = time.perf_counter()
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
    connected = time.perf_counter()
    initialize(parallel_state, 2, 2, 1, 2)
    initialised = time.perf_counter()
    for group in member_groups(parallel_state):
        torch.distributed.all_reduce(torch.zeros(1), group=group)
    used = time.perf_counter()
    figures = {
        "initialise_s": slowest_rank(torch, initialised - connected),
        "initialise_and_use_s": slowest_rank(torch, used - connected),
        "connect_and_initialise_s": slowest_rank(torch, initialised - start),
    }
    if os.environ["RANK"] == "0":
        print(json.dumps(figures))
    torch.distributed.destroy_process_group()


PEER = [sys.executable, "-W", "ignore", __file__]


def our_seconds(bench):
    """By the size of the world; the median of three repetitions, in wall-clock time."""
    flags = ["--benchmark_format=json", "--benchmark_repetitions=3"]
    report = json.loads(subprocess.run([bench, *flags], check=True, capture_output=True, text=True).stdout)
    medians = [run for run in report["benchmarks"] if run.get("aggregate_name") == "median"]
    return {int(run["run_name"].split("/")[1]): run["real_time"] / 1e6 for run in medians}


def compare_fake(bench):
    ours = our_seconds(bench)
    print(f"\n{'plan and all getters of rank 0':34}{'ours, us':>12}{'peer, s':>12}{'times faster':>14}")
    for world in WORLDS:
        answer = subprocess.run([*PEER, "fake", str(world)], check=True, stdout=subprocess.PIPE, text=True)
        peer = json.loads(answer.stdout)["best_s"]
        print(f"world {world:<28}{ours[world] * 1e6:>12.4g}{peer:>12.4g}{peer / ours[world]:>14.0f}", flush=True)


def compare_ranks(program):
    sides = {"ours": [program], "peer": PEER}
    seen = {(side, name): [] for side in sides for name in FIGURES}
    for _ in range(ROUNDS):  # In turns, so that noise hits both.
        for side, command in sides.items():
            figures = run_ranks(command, "initialise", 8)
            print(json.dumps({"side": side} | figures), flush=True)
            for name, value in figures.items():
                seen[side, name].append(value)
    for kind, choose in (("best", min), ("median", statistics.median)):
        print(f"\n{f'8 Gloo ranks, {kind} of {ROUNDS} starts':52}{'ours':>10}{'peer':>10}{'times faster':>14}")
        for name, text in FIGURES.items():
            ours, peer = choose(seen["ours", name]), choose(seen["peer", name])
            print(f"{text:52}{ours:>10.4g}{peer:>10.4g}{peer / ours:>14.2f}")


def main():
    match sys.argv[1:]:
        case ["compare", bench, ranks]:
            compare_fake(bench)
            compare_ranks(ranks)
        case ["fake", world]:
            measure_fake(int(world))
        case ["initialise", folder]:
            measure_rank(folder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
