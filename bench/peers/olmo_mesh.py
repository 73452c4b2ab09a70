"""Our build_world_mesh beside OLMo-core's and torch's init_device_mesh, in one run.

    olmo_mesh.py compare BENCH           olmo_mesh_bench beside the peers
    olmo_mesh.py build_world_mesh WORLD  OLMo-core as rank 0 of a fake world: seconds, best of 3
    olmo_mesh.py init_device_mesh WORLD  torch alone, on the same shape
"""

import json
import subprocess
import sys
import time

WORLDS = (64, 1024, 16384)
ROUNDS = 3
PEER = [sys.executable, "-W", "ignore", __file__]


def degrees(world):
    """shard, tp, cp, pp as in olmo_mesh_bench.cpp."""
    return (2, 4, 2, 4) if world < 1024 else (4, 8, 2, 8)


def shape_of(world):
    shard, tp, cp, pp = degrees(world)
    return (pp, world // (shard * tp * cp * pp), shard, cp, tp)


def ask_all(parallel, mesh):
    """The accessors that olmo_mesh_bench.cpp asks."""
    total = parallel.get_dp_process_group(mesh).size()
    for accessor in (
        parallel.get_dp_mesh, parallel.get_dp_model_mesh, parallel.get_dp_replicate_mesh, parallel.get_tp_mesh,
        parallel.get_cp_mesh, parallel.get_pp_mesh, parallel.get_ep_mesh,
    ):
        total += accessor(mesh).size()
    stage = parallel.get_pp_stage_mesh(mesh)
    return total + stage.size() + parallel.flatten_mesh(stage).size() + len(parallel.get_device_mesh_info(mesh))


def build_and_ask_all(world):
    from olmo_core.distributed import parallel
    from olmo_core.distributed.parallel.context_parallel import ContextParallelConfig

    shard, tp, cp, pp = degrees(world)

    def once():
        parallel._WORLD_MESH = None  # The peer has no way to begin anew.
        mesh = parallel.build_world_mesh(
            dp=parallel.DataParallelConfig(name=parallel.DataParallelType.hsdp, shard_degree=shard),
            tp=parallel.TensorParallelConfig(degree=tp),
            cp=ContextParallelConfig(degree=cp),
            pp=parallel.PipelineParallelConfig(degree=pp),
            device_type="cpu",
        )
        ask_all(parallel, mesh)

    return once


def torch_mesh(world):
    from torch.distributed.device_mesh import init_device_mesh

    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
    return lambda: init_device_mesh("cpu", shape_of(world), mesh_dim_names=names)


def measure(prepare, world):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    once = prepare(world)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    print(json.dumps({"best_s": min(times)}))


def peer_seconds(job, world):
    answer = subprocess.run([*PEER, job, str(world)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])["best_s"]


def our_seconds(bench):
    """By the size of the world; the median of three repetitions, in wall-clock time."""
    flags = ["--benchmark_format=json", "--benchmark_repetitions=3"]
    report = json.loads(subprocess.run([bench, *flags], check=True, capture_output=True, text=True).stdout)
    medians = [run for run in report["benchmarks"] if run.get("aggregate_name") == "median"]
    return {int(run["run_name"].split("/")[1]): run["real_time"] / 1e6 for run in medians}


def compare(bench):
    ours = our_seconds(bench)
    print(f"{'mesh and all accessors of rank 0':34}{'ours, us':>12}{'peer, s':>12}{'times faster':>14}", end="")
    print(f"{'init_device_mesh, s':>22}{'times faster':>14}")
    for world in WORLDS:
        peer, torch_alone = peer_seconds("build_world_mesh", world), peer_seconds("init_device_mesh", world)
        print(f"world {world:<28}{ours[world] * 1e6:>12.4g}{peer:>12.4g}{peer / ours[world]:>14.0f}", end="")
        print(f"{torch_alone:>22.4g}{torch_alone / ours[world]:>14.0f}", flush=True)


def main():
    match sys.argv[1:]:
        case ["compare", bench]:
            compare(bench)
        case ["build_world_mesh", world]:
            measure(build_and_ask_all, int(world))
        case ["init_device_mesh", world]:
            measure(torch_mesh, int(world))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
