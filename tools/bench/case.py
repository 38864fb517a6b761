# SPDX-License-Identifier: BSD-3-Clause
"""A row of the matrix: a load, the contenders under it, and the bars."""

import collections

from programs import Load

KIB, MIB = 1 << 10, 1 << 20
SIZE = 512 * MIB

# ours: the contender that the others are compared with. contenders: {name: function(seconds) -> figures}.
# where: not on this machine but there, in words. at: function(contender) -> its place in a plot.
Case = collections.namedtuple("Case", "part title ours contenders bars where at", defaults=(None, None))
# value of ours against other's: "iops", "mb_per_s", "p50_us"; or ours alone when other is None.
# mine: another contender than the case's ours.
Bar = collections.namedtuple("Bar", "other figure relation bound offset mine", defaults=(0, None))

LOADS = [Load(rw, 4 * KIB, depth) for depth in (1, 8, 32, 128) for rw in ("randread", "randwrite")]
LOADS += [Load(rw, 128 * KIB, 16) for rw in ("read", "write")]


def title(load, jobs=1):
    return f"{load.block // KIB} KiB {load.rw} d{load.depth}" + (f" x{jobs}" if jobs > 1 else "")


def place(plot, axis, value, line=None):
    """Rows of one part with one plot and axis are one picture; contenders are its lines, or what line says."""
    return {"plot": plot, "axis": axis, "value": value, **({"line": line} if line else {})}


def over_depth(load):
    return lambda _contender: place(f"{load.block // KIB} KiB {load.rw}", "depth", load.depth)


def direction(load):
    return "write" if "write" in load.rw else "read"
