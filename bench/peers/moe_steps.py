#!/usr/bin/env python3
"""moe_steps.py TESSERA PEER [ROUNDS]: steps of tiny-moe in one process, in turns with PEER, a script with the commands `init`, `data` and
`train` of a Mixtral of transformers that prints a record with `ms_per_step`. One thread each, fp32, 8 x 128 tokens.

Prints medians in wall-clock time, and CPU time (user and system) per step, as the difference between a long and a short run: that is the
figure to read while other work runs on the same cores."""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

tessera, peer = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
SHORT, LONG = 5, 25
SHAPE = "--vocab 256 --layers 4 --hidden 192 --heads 4 --kv-heads 4 --head-dim 48 --ffn 256 --experts 8 --topk 2 --max-seq 2048"
environment = dict(os.environ, OMP_NUM_THREADS="1")


def run(*command):
    """The output of a command, and the CPU time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def theirs(work, steps):
    out, cpu = run(sys.executable, peer, "train", "--model", f"{work}/model", "--data", f"{work}/tokens.bin", "--steps", str(steps),
                   "--batch", "8", "--seq", "128")
    record = json.loads(out.splitlines()[-1])
    return record["ms_per_step"], cpu, record["loss"][-1]


def ours(work, steps):
    folder = pathlib.Path(work) / "run"
    _, cpu = run(tessera, "train", "--model", f"{work}/model", "--data", f"{work}/tokens.bin", "--steps", str(steps), "--batch", "8", "--seq",
                 "128", "--lr", "1e-3", "--weight-decay", "0.1", "--no-shuffle", "--no-clip", "--threads", "1", "--dtype", "fp32", "--nproc", "1",
                 "--run.save=false", "--run.overwrite=true", "--run-dir", str(folder))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(line["ms"] for line in lines[3:]), cpu, lines[-1]["loss"]


def measure(train, work):
    _, short, _ = train(work, SHORT)
    ms, long, loss = train(work, LONG)
    return ms, (long - short) / (LONG - SHORT) * 1e3, loss


with tempfile.TemporaryDirectory() as work:
    run(sys.executable, peer, "init", "--out", f"{work}/model", "--arch", "mixtral", *SHAPE.split())
    run(sys.executable, peer, "data", "--out", f"{work}/tokens.bin", "--tokens", "65536", "--vocab", "256")
    clock, cpu = [], []
    for _ in range(rounds):
        a, b = measure(ours, work), measure(theirs, work)
        assert abs(a[2] - b[2]) < 1e-4, f"losses {a[2]} and {b[2]}"
        clock.append(a[0] / b[0])
        cpu.append(a[1] / b[1])
        print(f"ours {a[0]:.0f} ms, {a[1]:.0f} ms of CPU; theirs {b[0]:.0f} ms, {b[1]:.0f} ms of CPU; ratios {clock[-1]:.2f}, {cpu[-1]:.2f}; load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"median ratio of wall-clock time {statistics.median(clock):.2f}, of CPU time {statistics.median(cpu):.2f}; target 0.7")
