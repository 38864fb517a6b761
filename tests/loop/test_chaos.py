#!/usr/bin/python3
"""rblkd, rblk and a verifying client on a fabric that uses all freedom of the specification:
softrdma(1), CHAOS.

A case prints its seed. To replay one: SOFTRDMA_CHAOS=... in the environment of both programs.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (VERIFY, Target, Volume, expect, expect_equal, fio, run_cases, start_fio,  # noqa: E402
                     wait_until)

NAMESPACES = ("nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB, block_size: 4096")
MIX = ("--rw=randrw", "--bsrange=4k-128k", "--blockalign=4k", "--iodepth=16", "--size=6m", *VERIFY)


def runs_with(pid, variable):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return variable.encode() in f.read()


def controllers(target):
    """The controllers served now; a host that has reconnected has another."""
    rows = target.list("connections")["connections"]
    return sorted({c["controller"] for c in rows if c["controller"] is not None})


def unseen(chaos, like="roce"):
    """No client notices the chaos: all data is right, no I/O fails, and the connections stay."""
    def case(scratch):
        scratch.env.update(SOFTRDMA_CHAOS=chaos, SOFTRDMA_LIKE=like)
        target = Target(scratch, NAMESPACES)
        volumes = [Volume(target, 1), Volume(target, 2)]
        for pid in target.process.pid, *(v.pid() for v in volumes):
            expect(runs_with(pid, f"SOFTRDMA_CHAOS={chaos}"), f"process {pid} does not know of the chaos")
        served = controllers(target)
        for volume in volumes:
            fio(scratch, volume.uri, *MIX)
        expect_equal(controllers(target), served, "controllers")
        for volume in volumes:
            volume.detach()
        target.stop()
    return case


def order(scratch, control, text):
    """Changes the faults of the processes that follow this file."""
    temporary = scratch.file("chaos.new")
    with open(temporary, "w", encoding="ascii") as f:
        f.write(text)
    os.rename(temporary, control)


def broken(*faults):
    """Faults that end connections while data flows: the connections return, and no byte is lost."""
    def case(scratch):
        control = scratch.file("chaos")
        order(scratch, control, "")
        scratch.env["SOFTRDMA_CONTROL"] = control
        target = Target(scratch, NAMESPACES)
        del scratch.env["SOFTRDMA_CONTROL"]  # on one side only, so that its log tells which side failed
        volume = Volume(target, 1)
        first = controllers(target)
        client = start_fio(scratch, volume.uri, "--time_based", "--runtime=6", *MIX)
        wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 0, "fio writes")
        for fault in faults:
            time.sleep(1)
            order(scratch, control, fault)
        output, _ = client.communicate(timeout=600)
        order(scratch, control, "")
        expect_equal(client.returncode, 0, "fio " + output[-1500:])
        expect(controllers(target) != first, "nothing has broken")
        volume.detach()
        target.stop()
    return case


ALL = "defer=5,delay=100,chunk=5,late-ack=10,late-read=10,reorder=20,remote-first=20,spurious=10,poll=2"
CASES = [
    *((chaos, unseen("seed=1," + chaos)) for chaos in (
        "defer=10,delay=200", "chunk=20,delay=50", "late-ack=20,delay=300", "late-read=30,delay=300",
        "rnr=5,delay=200", "reorder=50", "remote-first=50", "spurious=30", "poll=1")),
    *((f"everything at once, seed {seed}", unseen(f"seed={seed},{ALL}")) for seed in (2, 3)),
    ("a device like siw", unseen("seed=4,delay=100", "siw")),
    ("a device like siw, everything at once", unseen("seed=5," + ALL, "siw")),
    ("work requests that fail", broken("fail=100,status=12", "", "fail=200,status=10", "", "fail=1,status=5")),
]

if __name__ == "__main__":
    run_cases(CASES)
