"""Seconds that Megatron-Core needs for the groups of one process, as JSON: the peer of topology_bench.

One process acts as rank 0 of a fake world: rank arithmetic and bookkeeping run for real, communicators do not.
"""

import json
import sys
import time

import torch.distributed as dist
from megatron.core import parallel_state
from torch.testing._internal.distributed.fake_pg import FakeStore

SIZES = {"tensor": 8, "pipeline": 8, "context": 2, "expert": 8}


def arithmetic(world):
    """All rank lists of all kinds: what AllGroupsOfAllRanks computes."""
    tp, pp, cp, ep = SIZES.values()
    decoder = parallel_state.RankGenerator(tp, 1, world // (tp * pp * cp), pp, cp, "tp-cp-ep-dp-pp")
    expert = parallel_state.RankGenerator(tp, ep, world // (tp * pp * ep), pp, 1, "tp-cp-ep-dp-pp")
    for token in ("dp-cp", "dp", "cp", "tp-pp", "tp", "pp", "pp", "pp", "tp-dp-cp", "tp-dp", "tp-cp"):
        decoder.get_ranks(token)
    for token in ("ep", "tp", "tp-ep", "tp-ep-pp", "dp", "tp-ep-pp-dp"):
        expert.get_ranks(token)


def initialize(world):
    """Everything that a process does to know its own groups."""
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=SIZES["tensor"],
        pipeline_model_parallel_size=SIZES["pipeline"],
        context_parallel_size=SIZES["context"],
        expert_model_parallel_size=SIZES["expert"],
        create_gloo_process_groups=False,
    )


def best_of(runs, body, world):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        body(world)
        times.append(time.perf_counter() - start)
        parallel_state.destroy_model_parallel()
    return min(times)


def main():
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    print(json.dumps({
        "world": world,
        "all_rank_lists_s": best_of(3, arithmetic, world),
        "initialize_model_parallel_s": best_of(3, initialize, world),
    }))


if __name__ == "__main__":
    main()
