#!/usr/bin/env python3
"""Turns the flight-recorder dumps of a run into the pickles that PyTorch's analyser reads.

    flight_recorder_pickle.py --out FOLDER rank_*.json
    torchfrtrace FOLDER

Python's standard library is enough. docs/flight-recorder.md says what changes on the way, and why.
"""
import argparse
import json
import math
import os
import pickle
import re
import sys
from collections import Counter

# Our operations that the analyser knows under another name.
OTHER_NAMES = {
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_coalesced": "reduce_scatter_tensor_coalesced",
}
KNOWN = {"all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"}
MESSAGE = re.compile(r"(?P<kind>send|recv) (?P<left>\d+)(->|<-)(?P<right>\d+)")


class BadInput(Exception):
    """Something that the caller has to change."""


def has_forgotten(dump):
    """Whether the rank did operations that are no longer in its dump."""
    if dump["entries"]:
        return dump["entries"][0]["record_id"] > 0
    return any(status["last_enqueued_collective"] > 0 for status in dump["pg_status"].values())


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
        for group in dump["pg_config"].values():
            group["ranks"] = tuple(json.loads(group["ranks"]))
        for entry in dump["entries"]:
            entry["ranks"] = dump["pg_config"][entry["process_group"][0]]["ranks"]
            entry["backend"], _, entry["operation"] = entry["profiling_name"].partition(":")
        dump["rank"], dump["job"], dump["restart"], dump["world_size"]  # Asked for by later steps.
        dump["forgets"] = has_forgotten(dump)
        return dump
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} is no flight-recorder dump ({type(error).__name__}: {error})") from error


def load_run(paths):
    run = {}
    for path in paths:
        dump = load(path)
        first = next(iter(run.values()), dump)
        if (dump["job"], dump["restart"]) != (first["job"], first["restart"]):
            raise BadInput(f"{path} is of another job or attempt than {paths[0]}; give the dumps of one")
        if dump["rank"] in run:
            raise BadInput(f"{path} is a second dump of rank {dump['rank']}; give one dump per rank")
        run[dump["rank"]] = dump
    return run


def separate_message(entry):
    """A send or recv becomes an operation of a group of its two ends, for this direction alone.

    The analyser expects every member of a group in every operation, and matches by number.
    """
    match = MESSAGE.fullmatch(entry["operation"])
    if not match:
        return False
    here, there = (entry["ranks"][int(match[end])] for end in ("left", "right"))
    source, destination = (here, there) if match["kind"] == "send" else (there, here)
    ends = tuple(sorted((source, destination)))
    arrow = "->" if match["kind"] == "send" else "<-"
    entry["operation"] = f"{match['kind']} {ends.index(here)}{arrow}{ends.index(there)}"
    name, desc = entry["process_group"]
    entry["process_group"] = tuple(f"{part} {source}->{destination}" for part in (name, desc))
    entry["ranks"] = ends
    entry["collective_seq_id"] = entry["p2p_seq_id"]
    return True


def rename(entry):
    """The analyser's name of the operation; False where it has none."""
    if entry["is_p2p"]:
        return separate_message(entry)
    entry["operation"] = OTHER_NAMES.get(entry["operation"], entry["operation"])
    return entry["operation"] in KNOWN or entry["operation"] in OTHER_NAMES.values()


def key(entry):
    return entry["process_group"][0], entry["ranks"]


def last_messages(run):
    """Of each direction the last message that has arrived."""
    last = Counter()
    for dump in run.values():
        for entry in dump["entries"]:
            if entry["is_p2p"] and entry["state"] == "completed":
                last[key(entry)] = max(last[key(entry)], entry["p2p_seq_id"])
    return last


def common_start(run):
    """Of each group the number from which on every rank still has its operations."""
    start, messages = Counter(), last_messages(run)
    for rank, dump in run.items():
        if not dump["forgets"]:
            continue
        oldest = {group: number + 1 for group, number in messages.items() if rank in group[1]}
        for name, group in dump["pg_config"].items():
            status = dump["pg_status"][str(group["pg_id"])]
            oldest[name, group["ranks"]] = status["last_enqueued_collective"] + 1
        for entry in reversed(dump["entries"]):
            oldest[key(entry)] = entry["collective_seq_id"]
        for group, number in oldest.items():
            start[group] = max(start[group], number)
    return start


def number_of_elements(sizes):
    return sum(math.prod(size) for size in sizes)


def find_uneven(run):
    """Gathers and scatters whose pieces differ between ranks."""
    uneven = set()
    for dump in run.values():
        for entry in dump["entries"]:
            piece, whole = entry["input_sizes"], entry["output_sizes"]
            if entry["operation"] == "reduce_scatter":
                piece, whole = whole, piece
            elif entry["operation"] != "all_gather":
                continue
            whole_elements = number_of_elements(piece) * len(entry["ranks"])
            if len(piece) != len(whole) or number_of_elements(whole) != whole_elements:
                uneven.add((key(entry), entry["collective_seq_id"]))
    return uneven


def show_the_whole(entry):
    """An uneven operation with the sizes that are equal on all ranks: those of the whole."""
    whole = "output" if entry["operation"] == "all_gather" else "input"
    for end in ("input", "output"):
        entry[f"{end}_sizes"] = entry[f"{whole}_sizes"]
        entry[f"{end}_dtypes"] = entry[f"{whole}_dtypes"]
    entry["operation"] += "_v"


def converted(dump, start, uneven):
    groups = {name: (group["desc"], group["ranks"]) for name, group in dump["pg_config"].items()}
    entries = []
    for entry in dump["entries"]:
        if entry["collective_seq_id"] < start[key(entry)]:
            continue
        if (key(entry), entry["collective_seq_id"]) in uneven:
            show_the_whole(entry)
        name, desc = entry["process_group"]
        groups[name] = (desc, entry["ranks"])
        # Counted anew: the analyser takes equal numbers of different ranks for equal times.
        changed = {"record_id": len(entries), "process_group": (name, desc)}
        # Analysers before PyTorch 2.13 know no other back end.
        changed["profiling_name"] = f"nccl:{entry['operation']}"
        kept = {name: value for name, value in entry.items() if name not in ("ranks", "backend", "operation")}
        entries.append(kept | changed)
    return {
        "version": dump["version"],
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))} for name, (desc, ranks) in groups.items()
        },
        "pg_status": dump["pg_status"],
        "entries": entries,
    }


def convert(run):
    """The analyser's dump of each rank; the second result counts the operations that it cannot know."""
    unknown = Counter()
    for dump in run.values():
        before = dump["entries"]
        dump["entries"] = [entry for entry in before if rename(entry)]
        kept = {id(entry) for entry in dump["entries"]}
        unknown.update(entry["profiling_name"] for entry in before if id(entry) not in kept)
    start, uneven = common_start(run), find_uneven(run)
    return {rank: converted(dump, start, uneven) for rank, dump in run.items()}, unknown


def write(pickles, folder, prefix):
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise BadInput(f"{folder} is not empty, and the analyser reads all of it; name a new folder")
    for rank, dump in pickles.items():
        with open(os.path.join(folder, f"{prefix}{rank}"), "wb") as file:
            pickle.dump(dump, file)


def main():
    parser = argparse.ArgumentParser(description="Turns flight-recorder dumps into pickles for torchfrtrace.")
    parser.add_argument("dumps", nargs="+", metavar="DUMP", help="JSON dump of a rank")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder for the pickles")
    parser.add_argument("--prefix", default="rank_", help="names of the pickles without the rank (rank_)")
    arguments = parser.parse_args()
    try:
        run = load_run(arguments.dumps)
        world = next(iter(run.values()))["world_size"]
        pickles, unknown = convert(run)
        write(pickles, arguments.out, arguments.prefix)
    except BadInput as error:
        sys.exit(f"flight_recorder_pickle: {error}")
    except OSError as error:
        sys.exit(f"flight_recorder_pickle: cannot write {arguments.out}: {error.strerror}")
    for name, count in unknown.items():
        print(f"left out: {count} of {name}, which the analyser does not know", file=sys.stderr)
    incomplete = " --allow-incomplete-ranks" if len(run) < world else ""
    print(f"{len(run)} of {world} ranks; now: torchfrtrace{incomplete} {arguments.out}")


if __name__ == "__main__":
    main()
