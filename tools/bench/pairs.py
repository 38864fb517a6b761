# SPDX-License-Identifier: BSD-3-Clause
"""Parts in which the same load runs through several pairs of host and target, all with a namespace
in RAM. Each target is paused while another is measured, for most of them never sleep."""

import contextlib
import os

import programs
import spdk
from case import KIB, LOADS, SIZE, Bar, Case, over_depth, title

RAM = {1: f"ram: {SIZE >> 20}MiB, block_size: 4096"}
ALWAYS = ("--spin", "always")


def on(target, load, *options):
    """rblk bench on this target, the only one that runs."""
    def run(seconds):
        with target.awake():
            return programs.rblk_bench(target, 1, load, seconds, *options)
    return run


def paused(stack, target):
    target = stack.enter_context(target)
    target.pause()
    return target


# ---- what polling is worth ---------------------------------------------------------------

def polling_bars(load):
    bars = [Bar("never sleeps", "iops", ">=", 0.95)]
    if load.block == 4 * KIB:
        bars += [Bar("never sleeps", "p99_us", "<=", 1.5), Bar("never sleeps", "p999_us", "<=", 2.0)]
    return bars


@contextlib.contextmanager
def polling():
    with contextlib.ExitStack() as stack:
        shipped = paused(stack, programs.rblkd(stack.enter_context(programs.folder()), RAM))
        always = paused(stack, programs.rblkd(stack.enter_context(programs.folder()), RAM, "{spin: always, workers: 1}"))
        yield [Case("polling", title(load), "as shipped",
                    {"as shipped": on(shipped, load), "never sleeps": on(always, load, *ALWAYS)},
                    polling_bars(load), at=over_depth(load)) for load in LOADS]


# ---- SPDK --------------------------------------------------------------------------------

BOUNDS = {1: 1.0, 8: 1.15, 16: 1.0, 32: 1.3, 128: 1.3}  # of both ours against both theirs, by depth


def spdk_case(build, rblkd, nvmf_tgt, load):
    def theirs(target):
        def run(seconds):
            with target.awake():
                return spdk.perf(build, target, load, seconds)
        return run

    figure = "iops" if load.block == 4 * KIB else "mb_per_s"
    bars = [Bar("SPDK, SPDK", figure, ">=", BOUNDS[load.depth]),
            Bar("SPDK, SPDK", figure, ">=", 1.0, mine="SPDK, rblkd")]
    if load.block > 4 * KIB:
        bars.append(Bar("SPDK, SPDK", figure, ">=", 1.0, mine="rblk, SPDK"))
    return Case("spdk", title(load), "rblk, rblkd",
                {"rblk, rblkd": on(rblkd, load), "SPDK, SPDK": theirs(nvmf_tgt), "SPDK, rblkd": theirs(rblkd),
                 "rblk, SPDK": on(nvmf_tgt, load)}, bars, at=over_depth(load))


@contextlib.contextmanager
def beside_spdk():
    build = spdk.Build(os.environ.get("RBLK_BENCH_SPDK"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(spdk.huge_pages())
        scratch = stack.enter_context(programs.folder())
        rblkd = paused(stack, programs.rblkd(scratch, RAM))
        nvmf_tgt = paused(stack, spdk.target(build, scratch, SIZE))
        yield [spdk_case(build, rblkd, nvmf_tgt, load) for load in LOADS]
