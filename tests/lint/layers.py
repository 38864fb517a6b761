#!/usr/bin/python3
"""The dependency rule: a folder includes only those below it.

    base <- transport <- { target, initiator };  initiator <- nbd_bridge;  tools: see below

The software provider stands alone: it must work for programs that know nothing of this project.
"""

import os
import re

from common import ROOT, Tap, files, read

# Longest folder first: a file belongs to the first one that it lies in.
MAY_INCLUDE = {
    "softrdma": [],
    "base": [],
    "transport": ["base"],
    "target": ["base", "transport"],
    "initiator": ["base", "transport"],
    "nbd_bridge": ["base", "transport", "initiator"],
    "tools": ["base", "initiator", "nbd_bridge", "transport/wire", "transport/auth_key.h",
              "transport/fabric.h"],
}
# System headers that only these places may see.
ONLY_IN = [
    ("verbs and rdma_cma headers", r"infiniband/.*|rdma/rdma_.*", ("transport/", "tools/bench/floor.c")),
    ("libaio.h", r"libaio\.h", ("target/store/aio.c", "tools/bench/floor.c")),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    return next((f for f in MAY_INCLUDE if path.startswith(f + "/")), None)


def includes(name):
    """Yields (line number, path, whether it is a file of ours)."""
    for number, line in enumerate(read(name).splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, path = match.groups()
        beside = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if quote == '"' and os.path.exists(os.path.join(ROOT, beside)):
            yield number, beside, True
        else:
            yield number, path, folder_of(path) is not None


def layer_faults(folder, allowed, names):
    prefixes = [f if f.endswith(".h") else f + "/" for f in [folder] + allowed]
    for name in names:
        for number, path, is_ours in includes(name):
            inside_softrdma = path.startswith("softrdma/")
            if is_ours and (not path.startswith(tuple(prefixes)) or
                            (inside_softrdma and folder != "softrdma")):
                yield f"{name}:{number}: includes {path}"


def system_faults(pattern, places, names):
    for name in names:
        for number, path, is_ours in includes(name):
            if not is_ours and re.fullmatch(pattern, path) and not name.startswith(places):
                yield f"{name}:{number}: includes {path}"


def main():
    tap = Tap()
    sources = files(".c", ".h")

    for folder, allowed in MAY_INCLUDE.items():
        names = [n for n in sources if folder_of(n) == folder]
        tap.check(f"{folder} includes {', '.join(allowed) or 'nothing of ours'}",
                  list(layer_faults(folder, allowed, names)))
    product = [n for n in sources if folder_of(n)]
    for what, pattern, places in ONLY_IN:
        tap.check(f"{what} only in {', '.join(places)}",
                  list(system_faults(pattern, places, product)))
    tap.finish()


if __name__ == "__main__":
    main()
