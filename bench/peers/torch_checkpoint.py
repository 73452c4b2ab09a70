"""One rank of torch.distributed.checkpoint on the state of bench/checkpoint_ranks.cpp. Rank 0 prints its figures as one line of JSON."""
import json
import os
import resource
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

ROUNDS = 3
torch.set_num_threads(1)
dist.init_process_group("cpu:gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
rows = 4096 // dist.get_world_size()
state = {f"layers.{i}.weight": DTensor.from_local(torch.randn(rows, 2048), mesh, [Shard(0)]) for i in range(32)}


figures = {what: {"seconds": [], "cpu": []} for what in ("save", "load", "stall")}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def time_round(what, body, finish=lambda result: None):
    """Adds a round of the slowest rank, and the CPU time of all. `finish` waits for threads that communicate, too."""
    dist.barrier()
    cpu, start = cpu_seconds(), time.perf_counter()
    result = body()
    waited, used = time.perf_counter() - start, cpu_seconds() - cpu
    finish(result)
    waited, used = (torch.tensor([value], dtype=torch.float64) for value in (waited, used))
    dist.all_reduce(waited, dist.ReduceOp.MAX)
    dist.all_reduce(used)
    if what in figures:
        figures[what]["seconds"].append(waited.item())
        figures[what]["cpu"].append(used.item())


def remove(path):
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(path)


for turn in range(ROUNDS):
    path = os.path.join(os.getcwd(), "theirs", str(turn))
    time_round("save", lambda: dcp.save(state, checkpoint_id=path))
    time_round("load", lambda: dcp.load(state, checkpoint_id=path))
    remove(path)
    time_round("stall" if turn > 0 else "", lambda: dcp.async_save(state, checkpoint_id=path + "-async"), lambda future: future.result())
    remove(path + "-async")
if dist.get_rank() == 0:
    print(json.dumps(figures))
dist.destroy_process_group()
