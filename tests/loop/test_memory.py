#!/usr/bin/python3
"""Memory: of volume processes, little while idle, more under load, and little again; of rblkd, huge pages."""

import contextlib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (IS_SANITIZED, LASTING, NQN, PATIENCE, RBLKCTL, VERIFY, Target, Volume, expect, fio,  # noqa: E402
                     run, run_cases, start_fio, wait_until, waits)

MIB = 1 << 20
FIRST = 2 * MIB  # the buffers that a queue always has
# An idle volume: these, and what its process and its queues need besides.
IDLE = 8 * MIB


def used_bytes(volume):
    """The part of its queues' buffers that is registered, and so pinned by a device."""
    return volume.status()["buffer_bytes_used"]


def own_bytes(volume):
    with open(f"/proc/{volume.pid()}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


def set_rate(target, rate):
    run(RBLKCTL, "qos", "set", "--socket", target.control, f"{NQN}/1", f"write_bandwidth={rate}",
        env=target.scratch.env)


def load(scratch, target, volume):
    """Writes of 128 KiB, 128 at a time, verified. The target holds them until the slab has grown."""
    set_rate(target, "64KiB")
    process = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=128k", "--iodepth=128", "--size=32m", *VERIFY)
    wait_until(lambda: used_bytes(volume) > FIRST, "the slab grows")
    set_rate(target, "none")
    said, _ = process.communicate(timeout=PATIENCE)
    expect(process.returncode == 0, said)


def expect_idle(volume):
    wait_until(lambda: used_bytes(volume) <= FIRST, "an idle volume gives its memory back")
    if not IS_SANITIZED:
        expect(own_bytes(volume) <= IDLE, f"{own_bytes(volume)} bytes while idle")


def grows_and_shrinks(*options):
    @waits
    def case(scratch):
        target = Target(scratch, ["nsid: 1, ram: 64MiB, block_size: 4096"])
        volume = Volume(target, 1, None, *options)
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=1", "--size=1m", *VERIFY)
        expect_idle(volume)
        load(scratch, target, volume)
        expect_idle(volume)
        volume.detach()
        target.stop()
    return case


@waits
def lost_while_it_grows(scratch):
    """A target that dies again and again under a load that grows and a pause that shrinks."""
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, block_size: 4096, {LASTING}"])
    volume = Volume(target, 1)
    for _ in range(2):
        load(scratch, target, volume)
        target.kill()
        target.start()
        expect_idle(volume)
    volume.detach()
    target.stop()


HUGE_PAGE = 2 * MIB


def huge_bytes(pid):
    """The shared memory that a process maps by huge pages."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("ShmemPmdMapped:"))


def kernel_has_huge_pages():
    """Whether the kernel knows MADV_COLLAPSE, and its huge pages have the size that rblkd asks for."""
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    with contextlib.suppress(OSError), open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
                                            encoding="ascii") as f:
        return release >= (6, 1) and int(f.read()) == HUGE_PAGE
    return False


@waits
def ram_in_huge_pages(scratch):
    """A namespace that is not a whole number of huge pages, written and read while it gets them."""
    target = Target(scratch, ["nsid: 1, ram: 65MiB, block_size: 4096"])
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--iodepth=8", "--size=65m", *VERIFY)
    wait_until(lambda: huge_bytes(target.process.pid) >= HUGE_PAGE, "the namespace is in huge pages")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=65m", "--io_size=8m", *VERIFY)
    volume.detach()
    target.stop()


CASES = [
    ("the slab of a queue grows with use and shrinks again", grows_and_shrinks()),
    ("also when each command lends a window on it", grows_and_shrinks("--memory-windows")),
    ("so it does over reconnects", lost_while_it_grows),
    ("RAM in huge pages", ram_in_huge_pages) if kernel_has_huge_pages() else
    ("RAM in huge pages # SKIP the kernel has none to give", lambda scratch: None),
]

if __name__ == "__main__":
    run_cases(CASES)
