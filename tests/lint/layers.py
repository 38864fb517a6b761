#!/usr/bin/python3
"""The dependency rule: each floor includes and calls only those below it.

    base <- transport/wire <- transport <- { target, initiator };  initiator <- library <- nbd_bridge <- tools
    target: store <- config <- export <- engine <- command <- association <- operations
    target/engine: record <- poller <- queue <- request
    initiator and nbd_bridge: io <- control

    softrdma: process <- chaos <- fabric <- verbs <- trace <- { fabric/shm, fabric/roce } <- cm

softrdma stands alone: it works for programs that know nothing of this project. Its verbs and connection
manager reach the engines (fabric/shm, fabric/roce) through the calls of fabric/engine.h only, and the
management datagrams of RoCE through those of fabric/roce/gsi.h.

rblk bench measures what programs have that use librblk. So it includes and calls nothing below rblk.h.
The NBD bridge includes nothing of the initiator but its face to front ends, volume.h.

Edges between files are seen twice: in what they include, and in the symbols of the objects that the
build (the argument, a build folder) has made of them. Both must point down, and files that call or
include each other in a circle are few. By includes a .c and its .h are one file.
"""

import collections
import os
import re
import subprocess
import sys

from common import ROOT, Tap, files, read

# The floors that each floor may use besides itself. The longest name that fits a file is its floor.
TARGET = ["store", "config", "export", "engine/record", "engine/poller", "engine/queue", "engine/request", "command",
          "association", "operations"]
SOFTRDMA = ["process", "chaos", "fabric", "verbs", "trace"]
BELOW_TARGET = ["base", "transport", "transport/wire"]
MAY_USE = {
    **{f"softrdma/{floor}": [f"softrdma/{below}" for below in SOFTRDMA[:number]]
       for number, floor in enumerate(SOFTRDMA)},
    "softrdma/fabric/shm": [f"softrdma/{below}" for below in SOFTRDMA],
    "softrdma/fabric/roce": [f"softrdma/{below}" for below in SOFTRDMA],
    "softrdma/cm": [f"softrdma/{below}" for below in SOFTRDMA] + ["softrdma/fabric/roce/gsi.h"],
    "base": [],
    "transport/wire": ["base"],
    "transport": ["base", "transport/wire"],
    **{f"target/{floor}": BELOW_TARGET + [f"target/{below}" for below in TARGET[:number]]
       for number, floor in enumerate(TARGET)},
    "initiator/io": BELOW_TARGET,
    "initiator/control": BELOW_TARGET + ["initiator/io"],
    "library": ["base", "initiator/io", "initiator/control", "transport/provider.h"],
    "nbd_bridge/io": ["base", "transport/wire", "initiator/io", "initiator/control"],
    "nbd_bridge/control": ["base", "transport/wire", "initiator/io", "initiator/control", "nbd_bridge/io"],
    "tools": ["base", "library", "initiator/io", "initiator/control", "nbd_bridge/io", "nbd_bridge/control",
              "transport/wire", "transport/auth_key.h", "transport/fabric.h"],
}
# Programs that use volumes as foreign programs do: by librblk's public header.
BY_LIBRARY = "tools/rblk/bench"
PUBLIC = "library/rblk.h"
# The initiator's face to front ends, whose I/O shares their own loops.
FACE = ("initiator/control/volume.h", "initiator/io/volume_io.h")
# System headers that only these places may include.
ONLY_IN = [
    ("verbs and rdma_cma headers", r"infiniband/.*|rdma/rdma_.*",
     ("transport/", "softrdma/", "tools/bench/floor.c")),
    ("librados and librbd headers", r"(rados|rbd)/.*", ("target/store/rbd/",)),
    ("microhttpd.h", r"microhttpd\.h", ("base/http.c",)),
    ("libaio.h", r"libaio\.h", ("target/store/aio.c", "tools/bench/floor.c")),
]
# Time, randomness and order have one seam each, where a test can replace them.
SEAMS = [
    ("time", r"\b(clock_gettime|gettimeofday|nanosleep|usleep|sleep|time|__builtin_ia32_rdtsc)\(",
     ("base/clock.h", "base/clock.c", "base/ticks.h")),
    ("randomness", r"\b(getrandom|getentropy|rand|random|rand_r|\w*rand48|RAND_\w+|uuid_generate(_random)?)\(",
     ("base/random.c",)),
    ("a simulation", r"\b(random_seed\(|(clock_source|loop_choose) = )", ("base/random.",)),
]
# The compiler's own words have one spelling each: LIKELY, UNLIKELY, NOINLINE, COLD.
SPELLED = [
    ("branch hints and inlining", r"__builtin_expect|__attribute__\(\((noinline|cold)\b|[ (]cold\)\)",
     ("base/bits.h", "softrdma/process/api.h")),
]
# softrdma is a program of its own; the bench measures the machine itself.
NO_SEAMS = ("softrdma/", "tools/bench/")
# Limits: files that call or include each other in a circle, and pairs of files that call each other.
CYCLE_MAX = 3
MUTUAL_MAX = 5
# Static probes: each object that uses one defines it, weak.
PROBES = "_.stapsdt.base"
# Functions of the system's libraries that these programs replace at run time.
PROVIDER = "transport/provider.c"
PATHS = "softrdma/verbs/paths.c"  # functions of libc: the same calls are made without this file
STANDS_FOR_A_LIBRARY = ("softrdma/", PROVIDER, "tools/bench/pidfd_shim.c")
# The debt still to be removed: "USER USED" a line, and "circle FOLDER FILES", "mutual PAIRS". It
# only shrinks.
DEBT = "tests/lint/layers_debt"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def floor_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in MAY_USE:
        folder = os.path.dirname(folder)
    return folder or None


def may_use(user, used):
    allowed = MAY_USE[floor_of(user)]
    return floor_of(used) in [floor_of(user)] + allowed or used in allowed or used[:-1] + "h" in allowed


def includes(name):
    """Yields (line number, path, whether it is a file of this project)."""
    for number, line in enumerate(read(name).splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, path = match.groups()
        beside = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if quote == '"' and os.path.exists(os.path.join(ROOT, beside)):
            yield number, beside, True
        else:
            yield number, path, floor_of(path) is not None


def include_faults(names):
    for name in names:
        for number, path, is_ours in includes(name):
            if is_ours and not may_use(name, path):
                yield name, path, f"{name}:{number}: includes {path}"


def system_faults(pattern, places, names):
    for name in names:
        for number, path, is_ours in includes(name):
            if not is_ours and re.fullmatch(pattern, path) and not name.startswith(places):
                yield f"{name}:{number}: includes {path}"


def is_below_public(path):
    return path.startswith(("initiator/", "library/")) and path != PUBLIC


def reached(name):
    """name -> how it is included, of all headers that a file includes, itself or by another."""
    found, left = {}, [name]
    while left:
        user = left.pop()
        for number, path, is_ours in includes(user):
            if is_ours and path not in found and os.path.exists(os.path.join(ROOT, path)):
                found[path] = f"{user}:{number}"
                left.append(path)
    return found


def by_library_faults(names):
    users = [name for name in names if name.startswith(BY_LIBRARY)]
    if not any(PUBLIC in reached(name) for name in users):
        yield f"no file {BY_LIBRARY}* includes {PUBLIC}"
    for name in users:
        for path, how in reached(name).items():
            if is_below_public(path):
                yield f"{how}: includes {path}, for {name}"


def by_face_faults(names):
    for name in names:
        for number, path, is_ours in includes(name):
            if is_ours and path.startswith(("initiator/", "library/")) and path not in FACE:
                yield f"{name}:{number}: includes {path}"


def by_library_calls(edges):
    for (user, used), names in sorted(edges.items()):
        if user.startswith(BY_LIBRARY) and is_below_public(used) and \
                not all(name.startswith("rblk_") for name in names):
            yield f"{user} calls {used}: {' '.join(sorted(names))}"


def objects(build, names):
    """Yields (source, path of its object). meson names an object
    FOLDER/TARGET.p/PATH_OF_SOURCE.c.o."""
    for folder, _, here in os.walk(build):
        if not folder.endswith(".p"):
            continue
        home = os.path.relpath(os.path.dirname(folder), build)
        candidates = {os.path.relpath(n, home).replace("/", "_"): n
                      for n in names if n.startswith(home + "/")}
        for name in here:
            if name.endswith(".c.o") and name[:-2] in candidates:
                yield candidates[name[:-2]], os.path.join(folder, name)


def seam_faults(pattern, places, names):
    yield from line_faults(pattern, NO_SEAMS + places, names)


def line_faults(pattern, places, names):
    for name in names:
        if name.startswith(places):
            continue
        for number, line in enumerate(read(name).splitlines(), 1):
            code = line.split("/*")[0]
            if re.search(pattern, code) and not line.lstrip().startswith("*"):
                yield f"{name}:{number}: {line.strip()}"


def symbols_of(paths):
    """path -> the symbols that an object defines, and those that it requires. One nm reads all of
    them: there are hundreds, and starting a program is most of what one costs."""
    done = subprocess.run(["nm", "--format=posix", "-A", *paths], stdout=subprocess.PIPE, text=True,
                          check=True)
    found = {path: (set(), set()) for path in paths}
    for line in done.stdout.splitlines():
        path, symbol = line.split(": ", 1)
        name, kind = symbol.split()[:2]
        if kind == "U":
            found[path][1].add(name)
        elif kind in "TDBRVWC":
            found[path][0].add(name)
    return found


def calls(build, names):
    """(user, used) -> symbols. A name that two folders define belongs to the user's own folder, or
    to one below."""
    defined, wanted = collections.defaultdict(set), {}
    sources = {path: source for source, path in objects(build, names)}
    for path, (here, wants) in symbols_of(list(sources)).items():
        source = sources[path]
        wanted.setdefault(source, set()).update(wants)
        for name in here if source != PATHS else ():
            defined[name].add(source)
    edges = collections.defaultdict(set)
    for user, wants in wanted.items():
        for name in wants:
            owners = defined.get(name, set()) - {user}
            if name.startswith(("ibv_", "rdma_")):
                owners.discard(PROVIDER)
            near = [o for o in owners if o.split("/")[0] == user.split("/")[0]] or sorted(
                o for o in owners if not o.startswith(STANDS_FOR_A_LIBRARY))
            for owner in near[:1]:
                edges[user, owner].add(name)
    return edges


def call_faults(edges):
    for (user, used), names in sorted(edges.items()):
        if not may_use(user, used):
            yield user, used, f"{user} calls {used}: {' '.join(sorted(names))}"


def without_debt(faults, debt):
    """Removes the edges that the debt lists, and records in debt that they still exist."""
    for user, used, fault in faults:
        if (user, used) in debt:
            debt[user, used] = True
        else:
            yield fault


def circles(edges):
    """Tarjan: the sets of files that all reach each other, without recursion."""
    graph = collections.defaultdict(set)
    for user, used in edges:
        graph[user].add(used)
    index, low, stack, found = {}, {}, [], []
    for start in list(graph):
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    work.append((after, iter(graph[after])))
                    break
                if after in stack:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    del stack[at:]
    return found


def include_edges(names):
    """(user, used) of all includes, without endings: a .c and its .h are one."""
    for name in names:
        for _, path, is_ours in includes(name):
            user, used = os.path.splitext(name)[0], os.path.splitext(path)[0]
            if is_ours and user != used and os.path.exists(os.path.join(ROOT, path)):
                yield user, used


def circle_faults(edges, owed, verb):
    for circle in sorted(circles(edges), key=len, reverse=True):
        folder = circle[0].split("/")[0]
        if len(circle) > owed.get(folder, CYCLE_MAX):
            yield f"{len(circle)} files {verb} each other: {' '.join(circle)}"


def double_faults(build, names):
    """Names that two files of the product define. There must be none: the target and the initiator
    link into one process."""
    owners = collections.defaultdict(set)
    sources = {path: source for source, path in objects(build, names)
               if not source.startswith(STANDS_FOR_A_LIBRARY)}
    for path, (here, _) in symbols_of(list(sources)).items():
        for name in here:
            owners[name].add(sources[path])
    for name, sources in sorted(owners.items()):
        libraries = [s for s in sources if not s.startswith("tools/")]
        # The programs of tools/ may reuse names of each other, and each has a main.
        if libraries and len(sources) > 1 and name not in ("main", PROBES):
            yield f"{name} is defined in {' '.join(sorted(sources))}"


def mutual_faults(edges, n_owed):
    pairs = sorted((a, b) for a, b in edges if a < b and (b, a) in edges)
    if len(pairs) > n_owed:
        yield f"{len(pairs)} pairs of files call each other, {n_owed} may"
        for a, b in pairs:
            yield f"  {a} {b}"


def read_debt():
    debt, circle, mutual = {}, {}, MUTUAL_MAX
    for line in read(DEBT).splitlines() if os.path.exists(os.path.join(ROOT, DEBT)) else []:
        words = line.split()
        if words[0] == "circle":
            circle[words[1]] = int(words[2])
        elif words[0] == "mutual":
            mutual = int(words[1])
        else:
            debt[words[0], words[1]] = False
    return debt, circle, mutual


def main():
    tap = Tap()
    product = [n for n in files(".c", ".h") if floor_of(n)]
    debt, circle, n_mutual = read_debt()

    tap.check("each file of target is on a floor",
              [n for n in files(".c", ".h") if n.startswith("target/") and not floor_of(n)])
    for floor, allowed in MAY_USE.items():
        names = [n for n in product if floor_of(n) == floor]
        tap.check(f"{floor} includes {', '.join(allowed) or 'nothing of ours'}",
                  list(without_debt(include_faults(names), debt)))
    tap.check(f"files that include each other in a circle are at most {CYCLE_MAX}",
              list(circle_faults(include_edges(product), {}, "include")))
    for what, pattern, places in ONLY_IN:
        tap.check(f"{what} only in {', '.join(places)}",
                  list(system_faults(pattern, places, product)))
    tap.check(f"nbd_bridge has volumes by {FACE[0]} only",
              list(by_face_faults(name for name in product if name.startswith("nbd_bridge/"))))
    tap.check(f"{BY_LIBRARY}* has volumes by {PUBLIC} only", list(by_library_faults(product)))
    for what, pattern, places in SEAMS:
        tap.check(f"{what} only in {', '.join(places)}", list(seam_faults(pattern, places, product)))
    for what, pattern, places in SPELLED:
        tap.check(f"{what} only in {', '.join(places)}", list(line_faults(pattern, places, product)))
    if len(sys.argv) > 1:
        edges = calls(sys.argv[1], product)
        tap.check("the build has objects of each file", [] if len(edges) > 100 else ["too few calls seen"])
        tap.check(f"{BY_LIBRARY}* calls nothing below {PUBLIC}", list(by_library_calls(edges)))
        tap.check("no call points up", list(without_debt(call_faults(edges), debt)))
        tap.check(f"files that call each other in a circle are at most {CYCLE_MAX}", list(circle_faults(edges, circle, "call")))
        tap.check(f"at most {MUTUAL_MAX} pairs of files call each other",
                  list(mutual_faults(edges, n_mutual)))
        tap.check("no symbol is defined twice", list(double_faults(sys.argv[1], product)))
        tap.check("what is owed is only what is there",
                  [f"{DEBT}: take out: {a} {b}" for (a, b), is_there in debt.items() if not is_there])
    tap.finish()


if __name__ == "__main__":
    main()
