#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Verbs tests of other projects, unmodified: rdma-core's own tests as Debian ships them, UCX and libfabric.
They look for the device in /sys and /dev, too."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial

from foreign import (HERE, PATIENCE, SANITIZER, Failure, Program, Skip, both, enter_own_network, free_port, listens,
                     need, run, wait_until)

RDMA_CORE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # for which Debian's pyverbs is
# Device memory, on-demand paging, dma-buf, raw packets, tag matching: what no software device has. A test
# that is skipped beyond these has lost something.
SKIPS_AT_MOST = 60
ADDRESS = "192.0.2.1"  # libfabric looks for an interface that is no loopback
OF_OTHER_DEVICES = ("mlx5", "efa")


def add_interface():
    for command in ("link add suites0 type veth peer name suites1", f"addr add {ADDRESS}/24 dev suites0",
                    "link set suites0 up", "link set suites1 up"):
        subprocess.run(["ip", *command.split()], check=True)


# ---- rdma-core ----------------------------------------------------------------------

def unpack(folder):
    for name in os.listdir(RDMA_CORE):
        source = os.path.join(RDMA_CORE, name)
        target = os.path.join(folder, name.removesuffix(".gz"))
        with (gzip.open if name.endswith(".gz") else open)(source, "rb") as packed, open(target, "wb") as file:
            shutil.copyfileobj(packed, file)


def skipped(said):
    """(module, reason) of the tests that were skipped; other lines may stand between name and result."""
    for test in re.split(r"\n(?=test_\w+ \(tests\.)", said):
        name = re.match(r"test_\w+ \(tests\.(\w+)", test)
        reason = re.search(r"\.\.\. skipped (.*)", test)
        if name and reason and not any(other in name.group(1) for other in OF_OTHER_DEVICES):
            yield name.group(1), reason.group(1)


def rdma_core():
    need(PYTHON)
    if not os.path.isdir(RDMA_CORE):
        raise Skip(f"no {RDMA_CORE}: the documentation of python3-pyverbs is not installed")
    with tempfile.TemporaryDirectory(prefix="softrdma-suites.") as folder:
        tests = os.path.join(folder, "tests")
        os.mkdir(tests)
        unpack(tests)
        program = Program([PYTHON, "tests/run_tests.py", "--dev", "softrdma0", "-v"], cwd=folder)
        try:
            status = program.wait(2 * PATIENCE)
        finally:
            program.end()
    said = program.said()
    ran = re.search(r"Ran (\d+) tests", said)
    if status or not ran or int(ran.group(1)) < 250:
        raise Failure(said[-6000:])
    left_out = list(skipped(said))
    if len(left_out) > SKIPS_AT_MOST or any(module == "test_rdmacm" for module, _ in left_out):
        raise Failure(f"{len(left_out)} tests are skipped:\n" + "\n".join(map(str, left_out)))


# ---- pairs --------------------------------------------------------------------------

def ucx(transport, test):
    need("ucx_perftest")
    port = free_port()
    size = "8" if test.endswith("add") else "20000"
    command = ["ucx_perftest", "-t", test, "-n", "200", "-w", "20", "-s", size, "-p", str(port)]
    said = both(port, command, [*command, HERE],
                env={"UCX_TLS": f"{transport},self", "UCX_NET_DEVICES": "softrdma0:1"})[1]
    if not re.search(r"Final: +200 ", said):
        raise Failure(said)


def pingpong(endpoint, provider):
    """The commands of server and client, and the server's port."""
    need("fi_pingpong")
    if not os.environ.get("SOFTRDMA_TEST_NETNS"):
        raise Skip("no network namespace of our own")
    port = free_port()
    command = ["fi_pingpong", "-e", endpoint, "-p", provider, "-c", "-I", "20"]
    return [*command, "-B", str(port)], [*command, "-P", str(port), ADDRESS], port


def has_all_sizes(said):
    return len(re.findall(r"=20 ", said)) == 6


def libfabric(endpoint, provider, **env):
    server, client, port = pingpong(endpoint, provider)
    said = both(port, server, client, env=env)
    if not all(map(has_all_sizes, said)):
        raise Failure("\n".join(said))


def rxm_at_its_defaults():
    """Each size comes back, and one of them ends. The other may wait for ever: where the two share a
    processor, rxm 1.17 hears that the peer is gone before it looks for the peer's last message, and destroys
    the queue pair whose completion it has not read (rxm_close_conn)."""
    server, client, port = pingpong("rdm", "verbs;ofi_rxm")
    programs = [Program(server)]
    try:
        wait_until(lambda: listens(port), "the server listens", programs[0])
        programs.append(Program(client))
        wait_until(lambda: any(one.process.poll() == 0 and has_all_sizes(one.said()) for one in programs),
                   "one of them ends and has seen all sizes")
    except Failure as e:
        raise Failure("\n".join([str(e), *map(str, programs)])) from None
    finally:
        for program in programs:
            program.end()


# Microseconds between two looks for connections that end: longer than the program runs.
EVENTS_LATE = {"FI_OFI_RXM_CM_PROGRESS_INTERVAL": "5000000"}

CASES = [
    ("rdma-core's tests", rdma_core),
    *((f"ucx_perftest over {transport}: {test}", partial(ucx, transport, test))
      for transport in ("rc", "ud") for test in ("tag_lat", "tag_bw", "ucp_put_bw", "ucp_get", "ucp_fadd")),
    ("libfabric: reliable datagrams over connections (rxm)", rxm_at_its_defaults),
    ("libfabric: both ends of rxm end", partial(libfabric, "rdm", "verbs;ofi_rxm", **EVENTS_LATE)),
    ("libfabric: connections", partial(libfabric, "msg", "verbs")),
]

if __name__ == "__main__":
    enter_own_network()
    if os.environ.get("SOFTRDMA_TEST_NETNS"):
        add_interface()
    # A sanitizer's runtime does not bear softrdma(1), without which there are no files of the device.
    sys.exit(run([] if SANITIZER else CASES))
