#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a third host of the network can do to those that serve by RoCE, by requests in the names of
others: those that ask in earnest are served. SOFTRDMA_LIB names the library."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import far
import forge
from foreign import Failure, Skip, free_port, run, wait_until
from stranger import Stranger
from test_roce_cm import RBLK, RBLKD, configuration
from test_roce_forged import Rig, connect, counter, programs

NVME_PORT = 4420
RATE = 150
PENDING = 256  # rblkd's limit


@contextlib.contextmanager
def flood(what, port, rate):
    """Requests from here on, of hosts that there are not."""
    if os.geteuid():
        raise Skip("only root makes packets by hand")
    for link in "all", "far2":
        with open(f"/proc/sys/net/ipv4/conf/{link}/rp_filter", "w", encoding="ascii") as f:
            f.write("0")
    far.ip("route", "replace", "10.0.0.0/8", "via", Stranger.ADDRESSES["far3"][0])  # answers leave
    sender = subprocess.Popen([*Rig.stranger.enter, sys.executable, forge.__file__, what, far.HERE, str(port),
                               str(rate)])
    try:
        yield
    finally:
        sender.kill()
        sender.wait()


@contextlib.contextmanager
def target(every):
    with tempfile.TemporaryDirectory() as folder:
        every.append(far.here([RBLKD, "--config", configuration(folder)], {"RBLK_RUN_DIR": folder}))
        wait_until(lambda: "listening" in every[0].said(), "rblkd listens", every[0])
        yield every[0]


def discover(every):
    every.append(Rig.other.program([RBLK, "discover", far.HERE]))
    every[-1].expect_success()


def arrived(n):
    begin = counter("Udp", "InDatagrams")
    wait_until(lambda: counter("Udp", "InDatagrams") >= begin + n, "requests come")


def many_requests():
    """More than a server has places for, each of which lasts for seconds."""
    with programs() as every, target(every) as server:
        with flood("requests", NVME_PORT, RATE):
            arrived(2 * PENDING)
            for _ in range(6):
                discover(every)
        server.process.send_signal(signal.SIGTERM)
        server.expect_success()


def cases():
    yield "requests in many names", many_requests


if __name__ == "__main__":
    far.enter()
    Rig.other = far.OtherHost()
    Rig.stranger = Stranger(wait_until)
    try:
        sys.exit(run(list(cases()), lanes=1))
    finally:
        Rig.stranger.end()
        Rig.other.end()
