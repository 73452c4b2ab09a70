"""What the tests of pages share: running a page's commands, and comparing what they print with what the page shows."""
import os
import pathlib
import re
import subprocess


def fits(wanted, printed):
    """Whether the printed lines are the wanted ones; "…" is any text in a line, and alone any number of lines."""
    if not wanted:
        return not printed
    if wanted[0] == "…":
        return any(fits(wanted[1:], printed[i:]) for i in range(len(printed) + 1))
    pattern = ".*".join(re.escape(part) for part in wanted[0].split("…"))
    return bool(printed) and re.fullmatch(pattern, printed[0]) is not None and fits(wanted[1:], printed[1:])


def environment_of(folder, programs):
    """An environment in which commands find these programs, by links in a new folder."""
    folder.mkdir()
    for path in programs:
        (folder / path.name).symlink_to(path.resolve())
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", OMP_NUM_THREADS="1", LC_ALL="C.UTF-8")


def tessera_programs(tessera):
    """The program and those beside it that it becomes."""
    return pathlib.Path(tessera).resolve().parent.glob("tessera*")


def run(command, folder, environment):
    """The exit code of a command, and the lines that it prints."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=240, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]
