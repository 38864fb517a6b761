# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's target and host as peers, where they have been built (docs/HACKING.md has the recipe).

Both run on the fabric that rblk has: without an RDMA device, under the software provider. They need
2 MiB huge pages, which a run takes from the kernel for as long as it lasts."""

import contextlib
import json
import os
import re
import socket

import machine
import programs
from machine import Failure, Missing, Server, call, cpu_us

NQN = "nqn.2016-06.io.spdk:bench"
HUGE_PAGES = 768  # of 2 MiB: SPDK's pools and a bdev of 512 MiB
HUGE_PATH = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
HUGE_MOUNT = "/dev/hugepages"
LIBRARIES = (("build", "lib"), ("isa-l", ".libs"), ("isa-l-crypto", ".libs"))
# The columns of spdk_nvme_perf's line of totals: I/O a second, MiB/s, mean, least and most in us.
TOTAL = re.compile(r"^Total\s*:\s*([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", re.MULTILINE)
PERCENTILE = re.compile(r"^\s*([\d.]+)%\s*:\s*([\d.]+)us", re.MULTILINE)


class Build:
    """A source tree of SPDK in which it was built."""

    def __init__(self, root):
        self.libraries = ":".join(os.path.join(root or "", *path) for path in LIBRARIES)
        self.target = self.find(root, "nvmf_tgt")
        self.perf = self.find(root, "spdk_nvme_perf")

    @staticmethod
    def find(root, name):
        path = os.path.join(root or "", "build", "bin", name)
        if not root:
            raise Missing("SPDK is not there; --spdk DIR names where it was built")
        if not os.access(path, os.X_OK):
            raise Missing(f"there is no {path}; docs/HACKING.md says how SPDK is built")
        return path


def environment(build):
    """With Debian's DPDK, SPDK is built as shared libraries."""
    libraries = {"LD_LIBRARY_PATH": build.libraries}
    return dict(os.environ, **libraries) if machine.has_rdma_device() else machine.under_softrdma(libraries)


@contextlib.contextmanager
def huge_pages(wanted=HUGE_PAGES):
    """The kernel's count is afterwards what it was."""
    try:
        with open(HUGE_PATH, encoding="ascii") as f:
            before = int(f.read())
        set_huge_pages(max(before, wanted))
    except OSError as e:
        raise Missing(f"no huge pages for SPDK: {e.strerror}") from None
    try:
        with open(HUGE_PATH, encoding="ascii") as f:
            if int(f.read()) < wanted:
                raise Missing(f"the kernel has no {wanted} huge pages for SPDK")
        with huge_mount():
            yield
    finally:
        set_huge_pages(before)


@contextlib.contextmanager
def huge_mount():
    """SPDK's host takes no other folder than one that is mounted already."""
    with open("/proc/mounts", encoding="utf-8") as f:
        is_mounted = any(line.split()[2] == "hugetlbfs" for line in f)
    if not is_mounted:
        os.makedirs(HUGE_MOUNT, exist_ok=True)
        call(["mount", "-t", "hugetlbfs", "hugetlbfs", HUGE_MOUNT])
    try:
        yield
    finally:
        if not is_mounted:
            call(["umount", HUGE_MOUNT])


def set_huge_pages(number):
    with open(HUGE_PATH, "w", encoding="ascii") as f:
        f.write(str(number))


class Rpc:
    """SPDK's JSON-RPC: objects on a unix socket, one after the other, without a separator."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(machine.READY_S)
        self.socket.connect(path)
        self.id = 0

    def call(self, method, **params):
        self.id += 1
        request = {"jsonrpc": "2.0", "id": self.id, "method": method, **({"params": params} if params else {})}
        self.socket.sendall(json.dumps(request).encode())
        said = b""
        while True:
            part = self.socket.recv(65536)
            if not part:
                raise Failure(f"nvmf_tgt: {method}: it closed the connection")
            said += part
            with contextlib.suppress(ValueError):
                answer = json.loads(said)
                break
        if "error" in answer:
            raise Failure(f"nvmf_tgt: {method}: {answer['error'].get('message')}")
        return answer["result"]


def export_ram(rpc, port, n_bytes):
    rpc.call("nvmf_create_transport", trtype="RDMA")
    rpc.call("bdev_malloc_create", name="m", num_blocks=n_bytes // 4096, block_size=4096)
    rpc.call("nvmf_create_subsystem", nqn=NQN, allow_any_host=True, serial_number="BENCH")
    rpc.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "m"})
    rpc.call("nvmf_subsystem_add_listener", nqn=NQN,
             listen_address={"trtype": "RDMA", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)})


@contextlib.contextmanager
def target(build, scratch, n_bytes):
    """nvmf_tgt on the first CPU with a namespace in RAM."""
    port, path = machine.free_port(), os.path.join(scratch, "spdk.sock")
    server = Server([build.target, "-m", "0x1", "-r", path, "-s", "1024", "--no-pci"], env=environment(build))
    try:
        server.wait_ready(lambda: os.path.exists(path) and machine.accepts(path))
        rpc = Rpc(path)
        rpc.call("framework_wait_init")
        export_ram(rpc, port, n_bytes)
        yield programs.Target(server, port, NQN)
    finally:
        server.stop()


def figures_of(said):
    total = TOTAL.search(said)
    if not total:
        raise Failure("spdk_nvme_perf: no result")
    times = {float(share): float(us) for share, us in PERCENTILE.findall(said)}
    return {"iops": float(total[1]), "mb_per_s": float(total[2]) * (1 << 20) / 1e6,
            "p50_us": times.get(50.0, float(total[3])), "p99_us": times.get(99.0), "p999_us": times.get(99.9)}


def perf(build, peer, load, seconds):
    """SPDK's host on the second CPU; it counts whole seconds. peer: a Target."""
    n_seconds = max(1, round(seconds))
    before = cpu_us([peer.pid])
    where = f"trtype:RDMA adrfam:IPv4 traddr:127.0.0.1 trsvcid:{peer.port} subnqn:{peer.nqn}"
    said, host_us = call([build.perf, "-r", where, "-q", load.depth, "-o", load.block, "-w", load.rw,
                          "-t", n_seconds, "-c", "0x2", "-L", "-s", "256"], env=environment(build))
    figures = figures_of(said)
    n = max(figures["iops"] * n_seconds, 1)
    return {**figures, "host_us": host_us / n, "target_us": (cpu_us([peer.pid]) - before) / n}
