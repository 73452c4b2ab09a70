"""Our meshes of the NeMo dialect beside NeMo AutoModel's and torch's own, in one run.

    nemo_mesh.py compare BENCH     nemo_mesh_bench beside both
    nemo_mesh.py nemo WORLD        NeMo AutoModel as rank 0 of a fake world: seconds
    nemo_mesh.py torch WORLD       torch's init_device_mesh of the same shape, alone
"""

import json
import subprocess
import sys
import time

WORLDS = (64, 1024, 16384)
ROUNDS = 3
AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")


def sizes_for(world):
    """As nemo_mesh_bench.cpp has them."""
    tp, pp = (4, 2) if world < 256 else (8, 8)
    return {"dp_replicate_size": 2, "tp_size": tp, "pp_size": pp, "cp_size": 2, "ep_size": 8}


def fake_world(world):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)


def ask_helpers(utils, mesh):
    flat = (*AXES, "dp", "dp_shard_cp", "dp_cp")
    total = sum(utils.get_flat_mesh(mesh, name).get_group().size() for name in flat)
    total += utils.get_submesh(mesh, ("dp_replicate", "dp_shard_cp")).size()
    total += utils.get_submesh(mesh, ("dp", "cp")).size()
    total += utils.get_fsdp_dp_mesh(mesh).size()
    return total + utils.create_ring_ulysses_mesh(mesh, ring_degree=2, ulysses_degree=1).size()


def measure_nemo(world):
    from nemo_automodel.components.distributed import mesh_utils
    from nemo_automodel.components.distributed.config import FSDP2Config
    from nemo_automodel.components.distributed.mesh import ParallelismSizes

    fake_world(world)
    start = time.perf_counter()
    sizes = ParallelismSizes(**sizes_for(world))
    mesh, experts = mesh_utils._create_device_meshes(FSDP2Config(), sizes, world_size=world)
    ask_helpers(mesh_utils, mesh)
    experts["ep"].get_group().size()
    return time.perf_counter() - start


def measure_torch(world):
    from torch.distributed.device_mesh import init_device_mesh

    fake_world(world)
    sizes = sizes_for(world)
    outer, inner = (sizes["pp_size"], sizes["dp_replicate_size"]), (sizes["cp_size"], sizes["tp_size"])
    shard = world // (outer[0] * outer[1] * inner[0] * inner[1])
    start = time.perf_counter()
    mesh = init_device_mesh("cpu", (*outer, shard, *inner), mesh_dim_names=AXES)
    mesh.get_group("tp").size()
    return time.perf_counter() - start


def best_of(side, world):
    """Each time a fresh process: a used one keeps its groups."""
    command = [sys.executable, "-W", "ignore", __file__, side, str(world)]
    runs = (subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout for _ in range(ROUNDS))
    return min(json.loads(output.splitlines()[-1])["seconds"] for output in runs)


def our_seconds(bench):
    """By name and size of the world; the median of three repetitions, in wall-clock time."""
    flags = ["--benchmark_format=json", "--benchmark_repetitions=3"]
    report = json.loads(subprocess.run([bench, *flags], check=True, capture_output=True, text=True).stdout)
    medians = [run for run in report["benchmarks"] if run.get("aggregate_name") == "median"]
    return {tuple(run["run_name"].split("/")[:2]): run["real_time"] / 1e6 for run in medians}


def compare(bench):
    ours = our_seconds(bench)
    rows = {
        "nemo": ("MeshesAndHelpers", "meshes, flattened axes and helpers"),
        "torch": ("MeshAlone", "the mesh of five axes alone"),
    }
    for side, (name, text) in rows.items():
        print(f"\n{text:38}{'ours, us':>12}{side + ', s':>12}{'times faster':>14}")
        for world in WORLDS:
            own, peer = ours[name, str(world)], best_of(side, world)
            print(f"world {world:<32}{own * 1e6:>12.4g}{peer:>12.4g}{peer / own:>14.0f}", flush=True)


def main():
    match sys.argv[1:]:
        case ["compare", bench]:
            compare(bench)
        case ["nemo", world]:
            print(json.dumps({"seconds": measure_nemo(int(world))}))
        case ["torch", world]:
            print(json.dumps({"seconds": measure_torch(int(world))}))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
