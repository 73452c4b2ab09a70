"""One rank of torch.distributed.checkpoint on the state of bench/checkpoint_ranks.cpp. Rank 0 prints its figures as one line of JSON."""
import json
import os
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


def time_of(body):
    dist.barrier()
    start = time.perf_counter()
    result = body()
    worst = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item(), result


figures = {"save": 1e9, "load": 1e9, "stall": 1e9}
for turn in range(ROUNDS):
    path = os.path.join(os.getcwd(), "theirs", str(turn))
    figures["save"] = min(figures["save"], time_of(lambda: dcp.save(state, checkpoint_id=path))[0])
    figures["load"] = min(figures["load"], time_of(lambda: dcp.load(state, checkpoint_id=path))[0])
    stall, future = time_of(lambda: dcp.async_save(state, checkpoint_id=path + "-async"))
    if turn > 0:
        figures["stall"] = min(figures["stall"], stall)
    future.result()
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(path)
        shutil.rmtree(path + "-async")
if dist.get_rank() == 0:
    print(json.dumps(figures))
dist.destroy_process_group()
