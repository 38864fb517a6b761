#!/usr/bin/python3
"""docs/CONVENTIONS.md, checked for each subcommand: formats, names of keys, failures, exit codes.
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, RBLK, RBLKCTL, RBLKD, ROOT, Target, Volume, expect, expect_equal, fio, free_port,  # noqa: E402
                     run, run_cases)

NOT_FOUND, UNREACHABLE = 4, 7
PROGRAMS = {"rblk": RBLK, "rblkctl": RBLKCTL}
# A key that is a size or a time has its unit in its name; these words alone imply none.
WITHOUT_UNIT = re.compile(r"(^|_)(size|bytes_per|uptime|age|time|duration|latency|timeout|delay|interval|since|elapsed)$")
EXCEPT = {"block_size"}  # the specification's own word


def page():
    with open(os.path.join(ROOT, "docs", "CONVENTIONS.md"), encoding="utf-8") as f:
        return f.read()


def subcommands(program):
    """Names of all, those of two words too, from --help."""
    text = run(PROGRAMS[program], "--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\w[\w-]*(?: \w[\w-]*)?)  ", text, re.M)


def formats(_):
    for program in PROGRAMS:
        names = subcommands(program)
        expect(len(names) >= 7, f"{program}: {names}")
        for name in names:
            text = run(PROGRAMS[program], *name.split(), "--help").stdout
            if "--output" in text:
                expect(re.search(r"-o, --output table\|json +table, or json for scripts", text), f"{name}: {text}")
            else:
                expect_equal(f"{program} {name}", "rblkctl gen-key", "a subcommand without --output")
            expect(all(len(line) <= 80 for line in text.splitlines()), f"{name} --help is wider than 80: {text}")


def keys_of(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            if key != "options":  # those of rblk attach, by their own names
                yield from keys_of(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from keys_of(item)


def check_json(what, text):
    answer = json.loads(text)
    expect(text.startswith('{\n  "schema": 1,\n'), f"{what}: {text[:60]}")
    for key in keys_of(answer):
        expect(re.fullmatch(r"[a-z][a-z0-9_]*", key), f"{what}: key {key!r}")
        expect(key in EXCEPT or not WITHOUT_UNIT.search(key), f"{what}: {key!r} does not say its unit")
    return answer


def fits_a_terminal(scratch):
    """80 columns, with names as long as usual. The text on Flush and FUA is whole."""
    host = "nqn.2014-08.org.nvmexpress:uuid:6d6b4ca0-8bed-4bdb-a28e-07ea8ed0acf7"
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, null: 1GiB", f"nsid: 3, file: {scratch.make_file('a', 1 << 20)}"])
    Volume(target, 1, "db1", "--hostnqn", host)
    Volume(target, 2, "b")
    where = f"{NQN}@{target.address}"
    environment = dict(scratch.env, RBLK_CONTROL_SOCKET=target.control, COLUMNS="80")

    def lines(program, *arguments):
        return run(PROGRAMS[program], *arguments, env=environment, check=False).stdout.splitlines()

    for command in (("rblk", "list"), ("rblk", "status"), ("rblk", "discover", target.address),
                    ("rblk", "bench", where, "--rw", "randwrite", "--runtime", "50ms", "--ramp", "0ms"),
                    ("rblk", "stats"), ("rblkctl", "status"), ("rblkctl", "list"), ("rblkctl", "list", "namespaces"),
                    ("rblkctl", "list", "hosts"), ("rblkctl", "list", "connections"), ("rblkctl", "stats"),
                    ("rblkctl", "qos", "list", "--interval", "100ms"), ("rblkctl", "ana", "list"), ("rblkctl", "diff")):
        said = lines(*command)
        expect(said, f"{command}: nothing")
        wide = [line for line in said if len(line) > 80]
        expect(not wide, "\n".join([f"{command}: wider than 80 columns", *wide]))
    said = lines("rblk", "status", "db1")
    expect(f"    {host}" in said, "\n".join(said))
    table = "\n".join(lines("rblkctl", "status"))
    for text in ("  nothing: the contents end with rblkd", "  nothing: what is written is dropped", "  whole: rblkd sees to it",
                 "  whole if the file system keeps them so"):
        expect_equal(table.count(f"{text}\n"), 1, f"{text}:\n{table}")
    expect(not re.search(r"nothing: the\S", table), table)


def answers(scratch):
    second = free_port()
    portals = f"127.0.0.1, port: {second}}}\n  - {{name: q, address: 127.0.0.1"
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], listen=portals)
    volume = Volume(target, 1, "demo")
    fio(scratch, volume.uri, "--rw=randrw", "--bs=4k", "--size=1m")
    where = f"{NQN}@{target.address}"
    environment = dict(scratch.env, RBLK_CONTROL_SOCKET=target.control)
    for program, *arguments in (
            ("rblk", "discover", target.address), ("rblk", "list"), ("rblk", "status"), ("rblk", "status", "demo"),
            ("rblk", "doctor"), ("rblk", "stats"), ("rblk", "metrics"), ("rblk", "capture", "demo", "-t", "1ms", "-w", scratch.file("demo")),
            ("rblk", "bench", where, "--runtime", "1s"), ("rblk", "attach", where, "--name", "demo", "--frontend", "socket"),
            ("rblkctl", "status"), ("rblkctl", "stats"), ("rblkctl", "stats", "--hosts"), ("rblkctl", "stats", "--queues"),
            ("rblkctl", "capture", "-t", "1ms", "-w", scratch.file("rblkd")),
            ("rblkctl", "capsules"), ("rblkctl", "diff"), ("rblkctl", "apply"), ("rblkctl", "ana", "list"), ("rblkctl", "registrant", "list"),
            ("rblkctl", "qos", "list", "--interval", "100ms"), ("rblkctl", "ns", "resize", NQN, "1"),
            *(("rblk", "path", verb, "demo", f"127.0.0.1:{second}") for verb in ("add", "remove")),
            *(("rblkctl", "list", what) for what in ("subsystems", "namespaces", "hosts", "connections", "portals")),
            ("rblk", "detach", "demo")):
        done = run(PROGRAMS[program], *arguments, "-o", "json", env=environment, check=False)
        if "resize" in arguments:  # the configuration has its size
            expect_equal(done.returncode, 1, "resize")
        else:
            expect_equal(done.returncode, 0, f"{program} {arguments}: {done.stdout}{done.stderr}")
        check_json(f"{program} {arguments}", done.stdout)
    target.stop()


def failures(scratch):
    """The same as text and as JSON, in each program: one error line, one object, the same code."""
    for status, program, *arguments in (
            (2, "rblk", "atach"), (2, "rblk", "list", "--bogus"), (2, "rblk", "attach"), (2, "rblkctl", "staus"),
            (2, "rblkctl", "list", "ghosts"), (2, "rblkctl", "ns"), (NOT_FOUND, "rblk", "status", "ghost"),
            (NOT_FOUND, "rblk", "detach", "ghost"), (UNREACHABLE, "rblkctl", "status", "--socket", scratch.file("none")),
            (UNREACHABLE, "rblk", "attach", f"{NQN}@127.0.0.1:{free_port()}"),
            (NOT_FOUND, "rblk", "discover", "127.0.0.1", "--fabric", "mlx5_9")):
        text = run(PROGRAMS[program], *arguments, check=False, env=scratch.env)
        expect_equal(text.returncode, status, f"{program} {arguments}: {text.stderr}")
        lines = [line for line in text.stderr.splitlines() if ": error: " in line]
        expect_equal(len(lines), 1, f"error lines of {arguments}: {text.stderr}")
        done = run(PROGRAMS[program], *arguments, "-o", "json", check=False, env=scratch.env)
        expect_equal(done.returncode, status, f"{program} {arguments} -o json")
        error = check_json(f"{arguments}", done.stdout)["error"]
        expect_equal(set(error), {"program", "code", "message", "hint"}, "keys of an error")
        expect_equal(error["code"], status, "code")
        said = re.sub(r"\d+ms|\d+s", "TIME", f"{error['program']}: error: {error['message']}")
        expect_equal(said, re.sub(r"\d+ms|\d+s", "TIME", lines[0]), "what is said")
        expect("error:" not in done.stderr, done.stderr)


def codes(_):
    """The page lists all exit codes, and each manual page only such."""
    with open(os.path.join(ROOT, "base", "error.h"), encoding="utf-8") as f:
        wanted = set(re.findall(r"^\tEXIT_\w+ = (\d+),", f.read(), re.M))
    expect_equal(set(re.findall(r"^\| (\d) \|", page(), re.M)), wanted, "codes of the page")
    for name in ("rblk.8", "rblkctl.8", "rblkd.8"):
        with open(os.path.join(ROOT, "docs", "man", name + ".scd"), encoding="utf-8") as f:
            table = f.read().split("# EXIT STATUS")[1].split("\n# ")[0]
        found = re.findall(r"^(?:\[\[|\|) +(\d)$", table, re.M)
        expect(found and set(found) <= wanted and found == sorted(set(found)), f"{name}: {found}")


def helps(_):
    for program in (RBLK, RBLKCTL, RBLKD):
        for option in ("--help", "--version"):
            done = run(program, option)
            expect(done.stdout and not done.stderr, f"{program} {option}")


CASES = [
    ("80 columns", fits_a_terminal),
    ("one -o everywhere, help fits 80 columns", formats),
    ("answers", answers),
    ("failures", failures),
    ("exit codes", codes),
    ("--help and --version", helps),
]

if __name__ == "__main__":
    run_cases(CASES)
