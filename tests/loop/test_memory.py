#!/usr/bin/python3
"""Memory of volume processes: little while idle, more under load, and little again."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import IS_SANITIZED, LASTING, VERIFY, Target, Volume, expect, fio, run_cases, wait_until  # noqa: E402

MIB = 1 << 20
# A buffer of an idle volume: one segment, and what an NBD connection and its queue need besides.
IDLE = 8 * MIB
DEEP = ("--bs=128k", "--iodepth=128", "--size=32m")


def pinned_bytes(volume):
    """Of the buffers of its queues: what is registered, and so pinned by a device."""
    return volume.status()["buffer_bytes_used"]


def own_bytes(volume):
    with open(f"/proc/{volume.pid()}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


def grows_and_shrinks(*options):
    return lambda scratch: grow_and_shrink(scratch, options)


def grow_and_shrink(scratch, options):
    target = Target(scratch, ["nsid: 1, ram: 64MiB, block_size: 4096"])
    volume = Volume(target, 1, None, *options)
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=1", "--size=1m", *VERIFY)
    few = pinned_bytes(volume)
    expect(few <= 2 * MIB, f"{few} bytes registered at depth 1")
    if not IS_SANITIZED:
        expect(own_bytes(volume) <= IDLE, f"{own_bytes(volume)} bytes while idle")
    fio(scratch, volume.uri, "--rw=randwrite", *DEEP, *VERIFY)
    expect(pinned_bytes(volume) > few, f"{pinned_bytes(volume)} bytes registered at depth 128")
    wait_until(lambda: pinned_bytes(volume) == few, "an idle volume gives its memory back")
    if not IS_SANITIZED:
        expect(own_bytes(volume) <= IDLE, f"{own_bytes(volume)} bytes while idle again")
    volume.detach()
    target.stop()


def lost_while_it_grows(scratch):
    """A target that dies again and again under a load that grows and a pause that shrinks."""
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, block_size: 4096, {LASTING}"])
    volume = Volume(target, 1)
    for _ in range(2):
        fio(scratch, volume.uri, "--rw=randwrite", *DEEP, *VERIFY)
        most = pinned_bytes(volume)
        target.kill()
        target.start()
        expect(most > 2 * MIB, f"{most} bytes registered at depth 128")
        wait_until(lambda: pinned_bytes(volume) == 2 * MIB, "it shrinks, connected or not")
    volume.detach()
    target.stop()


CASES = [
    ("the slab of a queue grows with use and shrinks again", grows_and_shrinks()),
    ("also when each command lends a window on it", grows_and_shrinks("--memory-windows")),
    ("so it does over reconnects", lost_while_it_grows),
]

if __name__ == "__main__":
    run_cases(CASES)
