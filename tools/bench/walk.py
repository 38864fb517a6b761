#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The .c files that one WRITE enters, seen by callgrind: `RBLK_BUILD=build/dev tools/bench/walk.py` prints them.

rblkd, under a load of rblk bench, and then a volume process, under one of fio on its NBD socket, writes 64 KiB
at a time to a file. Callgrind writes down what each window of basic blocks executed. A file counts if it ran in
most of the windows with a write: what starts, and what a timer runs, is in few of them."""

import collections
import os
import re

import instructions
import programs

LOAD = programs.Load("randwrite", 64 * 1024, 1)
OUR_OWN = re.compile(r"\b((?:target|initiator|nbd_bridge|transport|base)/[\w/]+\.c)$")
SHARE = 0.5  # of the windows with a write
WINDOW = 50 * 1000  # basic blocks
MIN_WINDOWS = 8
SECONDS = (2, 10, 40)
SIZE = 16 << 20


def executed(path):
    """{file: functions} of a callgrind.out file: those whose own code ran, inlined code by its own file."""
    found = collections.defaultdict(set)
    here = function = ""
    is_call = False  # the next line has the cost of a call, not of here
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            key, _, value = line.strip().partition("=")
            if key in ("fl", "fi", "fe"):
                here = value
            elif key == "fn":
                function = value
            elif key == "calls":
                is_call = True
            elif re.match(r"[+\-*\d]", line):
                if not is_call:
                    found[here].add(function)
                is_call = False
    return found


def entered(windows, per_write):
    """The files of ours, sorted. per_write: the function that runs for each."""
    ran = [found for found in map(executed, windows) if any(per_write in functions for functions in found.values())]
    if len(ran) < MIN_WINDOWS:
        raise programs.Failure("too busy a machine to follow writes")
    seen = collections.Counter(match.group(1) for found in ran for match in map(OUR_OWN.search, found) if match)
    return sorted(name for name, times in seen.items() if times >= SHARE * len(ran))


def patiently(windows, path, per_write):
    """A busy machine may do little in a short run, so a longer one follows then."""
    for seconds in SECONDS:
        try:
            with windows(LOAD, seconds, f"file: {path}", WINDOW) as found:
                return entered(found, per_write)
        except programs.Failure:
            if seconds == SECONDS[-1]:
                raise
    return []


def of_one_write():
    """The files that one WRITE enters: (at the target, at the host)."""
    with programs.folder() as scratch:
        path = programs.fill_file(os.path.join(scratch, "disk"), SIZE)
        return (patiently(instructions.target_windows, path, "request_on_recv"),
                patiently(instructions.volume_windows, path, "nbd_write_run"))


if __name__ == "__main__":
    for half in of_one_write():
        print(*half, "", sep="\n")
