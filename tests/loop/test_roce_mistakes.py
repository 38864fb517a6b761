#!/usr/bin/python3
"""The likeliest mistakes with soft-roce, between two hosts (network namespaces): forgotten at the host, forgotten at
the target, interfaces with different MTUs, link-local addresses. The message names the mistake, and the target says what it does not
reach."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "softrdma"))
from harness import NQN, RBLK, RBLKCTL, SOFTRDMA, Target, expect, expect_equal, run, run_cases, wait_until  # noqa: E402

os.environ.setdefault("SOFTRDMA_LIB", SOFTRDMA)
from far import HERE, OtherHost, enter  # noqa: E402

UNREACHABLE = 7
OTHER = None


def target(scratch, fabric, address=HERE):
    return Target(scratch, ["nsid: 1, ram: 1MiB"], listen=address, extra=f"fabric: {fabric}")


def attach(scratch, port, *options, address=HERE):
    """From the other host. Returns standard error."""
    env = dict(scratch.env, RBLK_RUN_DIR=scratch.file("far"))
    done = run(*OTHER.enter, RBLK, "attach", f"{NQN}@{address}:{port}", "--frontend", "socket", *options, check=False,
               env=env)
    expect_equal(done.returncode, UNREACHABLE, done.stderr)
    return done.stderr


def status(of):
    return run(RBLKCTL, "status", "--socket", of.control, check=False, env=of.scratch.env).stdout


def forgotten_at_the_host(scratch):
    rblkd = target(scratch, "soft-roce")
    said = attach(scratch, rblkd.port, "--fabric", "soft")
    expect("softrdma without RoCE reaches this machine only" in said, said)
    expect("hint: fabric soft-roce (--fabric) reaches other hosts" in said, said)
    expect("this machine only" not in status(rblkd), status(rblkd))
    rblkd.stop()


def forgotten_at_the_target(scratch):
    rblkd = target(scratch, "soft")
    said = attach(scratch, rblkd.port, "--fabric", "soft-roce")
    expect("nothing receives RoCE there (UDP port 4791 is closed)" in said, said)
    expect("hint: is rblkd there, with an RDMA device or with fabric: soft-roce?" in said, said)
    log = rblkd.read_log()
    expect(f"warning: portal p: only programs of this machine reach {HERE}:{rblkd.port}" in log, log)
    expect("soft: this machine only" in status(rblkd), status(rblkd))
    expect(all(len(line) <= 80 for line in status(rblkd).splitlines()[2:4]), status(rblkd))
    rblkd.stop()


def doctor_knows_roce(scratch):
    for fabric, texts in (("soft", ("reaches this machine only", "--fabric soft-roce reaches other hosts")),
                          ("soft-roce", ("UDP port 4791", "far0 has 1500; the target's interface needs the same"))):
        said = run(RBLK, "doctor", "--fabric", fabric, check=False, env=scratch.env).stdout
        text = " ".join(said.split())
        for wanted in texts:
            expect(wanted in text, f"{wanted}: {said}")


def different_mtus(scratch):
    rblkd = target(scratch, "soft-roce")
    subprocess.run([*OTHER.enter, "ip", "link", "set", "far1", "mtu", "9000"], check=True)
    said = attach(scratch, rblkd.port, "--fabric", "soft-roce")
    expect("rejected the connection: its MTU is smaller than ours" in said, said)
    expect("hint: give the network interfaces of both sides the same MTU" in said, said)
    rblkd.stop()


def link_local_of(link):
    """An address of this host; the kernel first looks whether another one has it."""
    def found():
        words = ["ip", "-6", "-o", "addr", "show", "dev", link, "scope", "link", "-tentative"]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return re.search(r"(fe80:\S*)/", said)

    wait_until(found, "a link-local address")
    return found().group(1)


def link_local(scratch):
    """The portal listens, but the host has no way to it: both sides say why."""
    address = link_local_of("far0")
    rblkd = target(scratch, "soft-roce", f'"{address}%far0"')
    said = attach(scratch, rblkd.port, "--fabric", "soft-roce", address=f"[{address}%far1]")
    expect("softrdma's RoCE leaves out link-local addresses" in said, said)
    expect("hint: give the target's portal a unique local (fd00::/8) or global address" in said, said)
    log = rblkd.read_log()
    expect(f"warning: portal p: only programs of this machine reach [{address}%far0]:{rblkd.port}" in log, log)
    expect("link-local: this machine only" in status(rblkd), status(rblkd))
    rblkd.stop()


CASES = [
    ("a link-local portal", link_local),
    ("forgotten at the host", forgotten_at_the_host),
    ("forgotten at the target", forgotten_at_the_target),
    ("different MTUs", different_mtus),
    ("rblk doctor", doctor_knows_roce),
]

if __name__ == "__main__":
    enter()
    OTHER = OtherHost()
    try:
        run_cases(CASES)
    finally:
        OTHER.end()
