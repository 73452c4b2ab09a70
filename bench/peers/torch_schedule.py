"""Our pipeline tables beside those of torch.distributed.pipelining: made, lowered and validated, simulated.
CPU time, best of three on both sides.

    torch_schedule.py compare BENCH      schedule_bench and the peer, the same tables in one run
"""

import json
import subprocess
import sys
import time
from unittest import mock

from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import PipelineStage

ONE_STAGE = ("GPipe", "1F1B")
KINDS = (*ONE_STAGE, "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
SIZES = ((4, 16), (8, 32), (16, 64))
ROUNDS = 3


def make_stages(pp, count):
    """Stages of rank 0 that compute nothing: a schedule asks them only for numbers."""
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.num_stages, stage.submod = 0, pp, count * pp, None
    return [stage] * count


class Peer:
    """One of the peer's schedules, each part of its making by itself."""

    def __init__(self, kind, pp, microbatches):
        self.pp, self.bubbles = pp, kind == "InterleavedZeroBubble"
        self.num_stages = pp if kind in ONE_STAGE else 2 * pp
        stages = make_stages(pp, self.num_stages // pp)
        made = schedules.get_schedule_class(kind)
        if kind in ONE_STAGE:  # It makes their tables as views, with the reduction; its runtime lowers them as any other.
            self.single = made(stages[0], microbatches)
            self.schedule = schedules._PipelineScheduleRuntime(stages, microbatches)
            self.order = {rank: [a for a in row if a is None or a.is_compute_op] for rank, row in self.single.pipeline_order.items()}
        else:
            self.single = None
            self.schedule = made(stages, microbatches)
            self.order = dict(self.schedule.pipeline_order)

    def rank_of(self, stage):
        return self.schedule.stage_index_to_group_rank[stage]

    def make(self):
        if self.single:
            self.single._get_pipeline_order()
            return
        rows = {rank: self.schedule._calculate_single_rank_operations(rank) for rank in range(self.pp)}
        if self.bubbles:
            self.schedule.pipeline_order = rows
            self.schedule._add_bubbles_to_actions(2 * self.pp)

    def lower_and_validate(self):
        self.schedule._prepare_schedule_with_comms(dict(self.order))

    def add_messages(self):
        rows = {rank: [a for a in row if a is not None] for rank, row in self.order.items()}
        return schedules._add_send_recv(rows, self.rank_of, self.num_stages)

    def simulate(self, lowered):
        schedules._simulate_comms_compute(lowered, self.rank_of, self.num_stages)


def best_ms(body, prepare=lambda: ()):
    times = []
    for _ in range(ROUNDS):
        arguments = prepare()
        start = time.process_time()
        body(*arguments)
        times.append(time.process_time() - start)
    return min(times) * 1e3


def measure(kind, pp, microbatches):
    peer = Peer(kind, pp, microbatches)
    figures = {"make": best_ms(peer.make)}
    if kind == "1F1B":  # The peer's own check refuses its table: the last rank's forwards count from 1.
        return figures
    figures["lower_and_verify"] = best_ms(peer.lower_and_validate)
    if kind != "DualPipeV":  # The peer's dry run knows no overlap.
        figures["simulate"] = best_ms(peer.simulate, lambda: (peer.add_messages(),))
    return figures


def our_ms(bench):
    """By name, the best of three repetitions."""
    flags = [f"--benchmark_repetitions={ROUNDS}", "--benchmark_min_time=0.05", "--benchmark_filter=-compute"]
    flags.append("--benchmark_format=json")
    report = json.loads(subprocess.run([bench, *flags], check=True, capture_output=True, text=True).stdout)
    times = {}
    for run in report["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(run["run_name"], []).append(run["cpu_time"])
    return {name: min(values) for name, values in times.items()}


def compare(bench):
    ours = our_ms(bench)
    print(f"{'':52}{'ours, ms':>12}{'peer, ms':>12}{'times faster':>14}")
    for kind in KINDS:
        for pp, microbatches in SIZES:
            for part, peer in measure(kind, pp, microbatches).items():
                name = f"{part}/{kind}/{pp}/{microbatches}"
                print(f"{name:52}{ours[name]:>12.4g}{peer:>12.4g}{peer / ours[name]:>14.0f}", flush=True)


def main():
    match sys.argv[1:]:
        case ["compare", bench]:
            compare(bench)
        case _:
            sys.exit(__doc__)


main()
