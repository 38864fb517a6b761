# SPDX-License-Identifier: BSD-3-Clause
"""The programs of the matrix, ours and the peers': how each is started and how each is loaded.

Servers are context managers. Loads return a dict: iops, mb_per_s, p50_us, p99_us, p999_us,
host_us (CPU an I/O of the program that loads, and of the volume process), target_us."""

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile

import machine
from machine import Failure, Server, accepts, built, call, cpu_us, need

NQN = "nqn.2026-01.org.example:bench"
ISER_PORT = 3260  # tgtd's option for another one does not work
ISER_INITIATOR = "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-perf"

READY = "rblkd: ready, portals 1/1"
RAMP_S = 0.05  # under load before anything is measured

Load = collections.namedtuple("Load", "rw block depth")


@contextlib.contextmanager
def folder(on="/var/tmp"):
    with tempfile.TemporaryDirectory(prefix="rblk-bench.", dir=on) as path:
        yield path


def fill_file(path, n_bytes):
    """Written, not sparse: a hole is no disk."""
    block = os.urandom(1 << 20)
    with open(path, "wb") as f:
        for _ in range(n_bytes >> 20):
            f.write(block)
        f.flush()
        os.fsync(f.fileno())
    return path


# ---- rblkd, rblk ----------------------------------------------------------------------

class Target:
    def __init__(self, server, port, nqn=NQN):
        self.pid = server.pid
        self.port = port
        self.nqn = nqn
        self.where = f"{nqn}@127.0.0.1:{port}"

    def pause(self):
        """One that never sleeps takes a CPU from those that are measured."""
        os.kill(self.pid, signal.SIGSTOP)

    @contextlib.contextmanager
    def awake(self):
        os.kill(self.pid, signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()


# One host of a benchmark has more queues than one that should leave room for others.
LIMITS = ("{connections_per_host: 1024, controllers_per_host: 1024, io_queues_per_host: 1024, connect_rate_per_host: 1000, "
          "connect_rate: 1000, connections: 4096, pending: 1024, pending_per_host: 1024}")


def write_config(scratch, port, namespaces, tuning, more=""):
    """namespaces: {nsid: "ram: 64MiB"}. more: lines. The control socket is scratch/rblkd.sock."""
    path = os.path.join(scratch, "target.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"version: 1\ncontrol_socket: {scratch}/rblkd.sock\ntuning: {tuning}\nlimits: {LIMITS}\n{more}"
                f"portals:\n  - {{name: p, address: 127.0.0.1, port: {port}}}\n"
                f"subsystems:\n  - nqn: {NQN}\n    allow_any_host: true\n    namespaces:\n")
        f.writelines(f"      - {{nsid: {nsid}, {what}}}\n" for nsid, what in namespaces.items())
    return path


def has_its_pages(server, namespaces):
    """RAM is registered by and by after the start. Meanwhile the kernel looks for pages, and data is copied."""
    n_bytes = sum(int(mib) << 20 for what in namespaces.values() for mib in re.findall(r"\bram: (\d+)MiB", what))
    with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
        has = next(int(line.split()[1]) << 10 for line in f if line.startswith("RssShmem:"))
    return has >= n_bytes or server.has_said("its data is copied")


@contextlib.contextmanager
def rblkd(scratch, namespaces, tuning="{}", more=""):
    port = machine.free_port()
    server = Server([built("target", "rblkd"), "--config", write_config(scratch, port, namespaces, tuning, more)])
    try:
        server.wait_ready(lambda: server.has_said(READY) and has_its_pages(server, namespaces))
        yield Target(server, port)
    finally:
        server.stop()


def rblkctl(scratch, *arguments):
    """The command."""
    return [built("tools", "rblkctl", "rblkctl"), "-s", f"{scratch}/rblkd.sock", *arguments]


def bench_options(nsid, load, seconds):
    """The options of `rblk bench`."""
    return ["--ns", nsid, "--rw", load.rw, "--bs", load.block, "--depth", load.depth, "-t", f"{int(seconds * 1000)}ms",
            "--ramp", f"{int(RAMP_S * 1000)}ms", "-o", "json"]


def bench_figures(said):
    result = json.loads(said)
    return {"iops": result["iops"], "mb_per_s": result["mb_per_s"],
            "p50_us": result["p50_ns"] / 1000, "p99_us": result["p99_ns"] / 1000,
            "p999_us": result["p999_ns"] / 1000, "host_us": result["cpu_us_per_io"],
            "fairness": result["queue_min_iops"] / max(result["queue_max_iops"], 1)}


def rblk_bench(target, nsid, load, seconds, *options):
    """load: a Load. Through the host library, without NBD."""
    before = cpu_us([target.pid])
    said, _ = call([built("tools", "rblk", "rblk"), "bench", target.where, *bench_options(nsid, load, seconds), *options])
    figures = bench_figures(said)
    n = figures["iops"] * (seconds + RAMP_S)
    return {**figures, "target_us": (cpu_us([target.pid]) - before) / max(n, 1)}


class Volume:
    """A served volume: a URI for NBD clients."""

    def __init__(self, uri, pids):
        self.uri = uri
        self.pids = pids


def volume_command(scratch, target, nsid, name=None):
    """(Command, what it wants in its environment, its NBD socket)."""
    name = name or f"v{nsid}"
    socket = os.path.join(scratch, f"{name}.nbd")
    env = {"RBLK_RUN_DIR": os.path.join(scratch, "run"), "RBLK_STATE_DIR": scratch}
    os.makedirs(env["RBLK_RUN_DIR"], exist_ok=True)
    return [built("tools", "rblk", "rblk"), "serve", target.where, "--ns", nsid, "--name", name,
            "--socket", socket], env, socket


@contextlib.contextmanager
def volume(scratch, target, nsid):
    command, env, socket = volume_command(scratch, target, nsid)
    server = Server(command, env=dict(os.environ, **env))
    try:
        server.wait_ready(lambda: os.path.exists(socket) and accepts(socket))
        yield Volume(f"nbd+unix:///?socket={socket}", [server.pid, target.pid])
    finally:
        server.stop()


# ---- NBD servers of others ------------------------------------------------------------

@contextlib.contextmanager
def nbd_server(command, address, uri, others=()):
    """address: what to wait for."""
    need(command[0])
    server = Server(command)
    try:
        server.wait_ready(lambda: accepts(address))
        yield Volume(uri, [server.pid, *others])
    finally:
        server.stop()


def nbdkit_memory(scratch, size):
    path = os.path.join(scratch, "nbdkit.sock")
    return nbd_server(["nbdkit", "-f", "-U", path, "memory", str(size)], path, f"nbd+unix:///?socket={path}")


def nbdkit_rblk(scratch, target, nsid):
    """Our plug-in, for the same namespace."""
    plugin = built("tools", "nbdkit", "nbdkit-rblk-plugin.so")
    path = os.path.join(scratch, "plugin.sock")
    return nbd_server(["nbdkit", "-f", "-U", path, plugin, f"uri=nvme+rdma://127.0.0.1:{target.port}/{NQN}?ns={nsid}"],
                      path, f"nbd+unix:///?socket={path}", [target.pid])


def nbdkit_tcp(size, plugin="memory"):
    port = machine.free_port()
    return nbd_server(["nbdkit", "-f", "-i", "127.0.0.1", "-p", port, plugin, str(size)],
                      ("127.0.0.1", port), f"nbd://127.0.0.1:{port}")


def qemu_nbd(scratch, image, name="qemu.sock", others=()):
    path = os.path.join(scratch, name)
    return nbd_server(["qemu-nbd", "-k", path, "-t", "-e", "16", "-f", "raw", "--cache=none", "--aio=native", image],
                      path, f"nbd+unix:///?socket={path}", others)


def nbdkit_proxy(scratch, remote):
    path = os.path.join(scratch, "proxy.sock")
    return nbd_server(["nbdkit", "-f", "-U", path, "nbd", f"uri={remote.uri}"], path,
                      f"nbd+unix:///?socket={path}", remote.pids)


def qemu_proxy(scratch, remote):
    path = os.path.join(scratch, "qemu-proxy.sock")
    return nbd_server(["qemu-nbd", "-k", path, "-t", "-e", "16", "-f", "raw", remote.uri], path,
                      f"nbd+unix:///?socket={path}", remote.pids)


# ---- fio ------------------------------------------------------------------------------

def fio_command(engine, load, seconds, jobs=1):
    return ["fio", "--name=t", *engine, f"--rw={load.rw}", f"--bs={load.block}", f"--iodepth={load.depth}",
            f"--runtime={int(seconds * 1000)}ms", "--time_based", f"--ramp_time={int(RAMP_S * 1000)}ms",
            f"--numjobs={jobs}", "--group_reporting", "--randrepeat=0", "--norandommap", "--lat_percentiles=1",
            "--clat_percentiles=0", "--output-format=json"]


def fio_figures(said, load):
    job = json.loads(said[said.index("{"):])["jobs"][0]
    part = job["write" if "write" in load.rw else "read"]
    if job["error"] or not part["total_ios"]:
        raise Failure(f"fio: error {job['error']}")
    times = part["lat_ns"].get("percentile", {})  # with the submission, as ours
    return {"iops": part["iops"], "mb_per_s": part["bw_bytes"] / 1e6,
            "p50_us": times.get("50.000000", 0) / 1000, "p99_us": times.get("99.000000", 0) / 1000,
            "p999_us": times.get("99.900000", 0) / 1000}


def fio(engine, load, seconds, pids=(), jobs=1):
    need("fio")
    before = cpu_us(pids)
    with folder() as scratch:
        said, host_us = call([*fio_command(engine, load, seconds, jobs), f"--aux-path={scratch}"], cwd=scratch)
    servers_us = cpu_us(pids) - before
    figures = fio_figures(said, load)
    n = figures["iops"] * (seconds + RAMP_S)
    return {**figures, "host_us": host_us / n, "target_us": servers_us / n if pids else None}


def fio_nbd(server, load, seconds, jobs=1):
    return fio(["--ioengine=nbd", f"--uri={server.uri}"], load, seconds, server.pids, jobs)


def fio_rblk(target, nsid, load, seconds):
    """By the engine on librblk, in fio's own memory."""
    engine = built("tools", "fio", "rblk-fio.so")
    if not os.path.exists(engine):
        raise machine.Missing("no tools/fio/rblk-fio.so in the build")
    return fio([f"--ioengine=external:{engine}", f"--uri=nvme+rdma://127.0.0.1:{target.port}/{target.nqn}?ns={nsid}"],
               load, seconds, [target.pid])


def fio_file(path, size, load, seconds, direct=1):
    return fio(["--ioengine=libaio", f"--direct={direct}", f"--filename={path}", f"--size={size}"], load, seconds)


# ---- the fabric -----------------------------------------------------------------------

def floor(what, n_bytes, number, seconds, *path):
    result = json.loads(call([built("tools", "bench", "bench-floor"), what, n_bytes, number, seconds, *path])[0])
    return {"iops": result["iops"], "mb_per_s": result["mb_per_s"],
            "p50_us": result.get("p50_ns", result["us"] * 1000) / 1000,
            "p99_us": result.get("p99_ns", 0) / 1000 or None, "p999_us": result.get("p999_ns", 0) / 1000 or None}


@contextlib.contextmanager
def busy_cpu():
    """Another process polls meanwhile."""
    poller = subprocess.Popen([built("tools", "bench", "bench-floor"), "poll", "1", "1", "600"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=machine.under_softrdma())
    try:
        yield
    finally:
        poller.kill()
        poller.wait()


def perftest(program, n_bytes, column):
    """column: of the last line of the program's table."""
    need(program)
    env = None if machine.has_rdma_device() else machine.under_softrdma()
    port = machine.free_port()
    n = ["-n", "20000"] if "lat" in program else ["-n", "5000"]
    arguments = [program, "-R", "-s", n_bytes, "-p", port, "-F", *n]
    server = Server(arguments, env=env)
    try:
        server.wait_ready(lambda: listens(port))
        said, _ = call([*arguments, "127.0.0.1"], env=env)
    finally:
        server.stop()
    rows = [line.split() for line in said.splitlines() if re.match(rf" *{n_bytes} ", line)]
    if not rows:
        raise Failure(f"{program}: no result")
    return float(rows[-1][column])


def listens(port):
    """In the system's tables: a connection would be taken for the client. softrdma's is a unix socket."""
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with contextlib.suppress(OSError), open(table, encoding="ascii") as f:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in list(f)[1:]):
                return True
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return re.search(rf"@softrdma\.cm\.\w+\.{port}\.", f.read()) is not None


# ---- iSER -----------------------------------------------------------------------------

@contextlib.contextmanager
def tgtd(scratch, disk):
    """tgtd's iSER target with one logical unit; its URL for libiscsi."""
    need("tgtd", "tgtadm", "iscsi-perf")
    if listens(ISER_PORT):
        raise machine.Missing(f"port {ISER_PORT} is taken")
    ipc = {"TGT_IPC_SOCKET": os.path.join(scratch, "tgtd.ipc")}
    env = dict(os.environ, **ipc)
    target = "iqn.2026-01.example"

    def admin(*arguments):
        call(["tgtadm", "--lld", "iser", *arguments], env=env, timeout=20)

    def answers():
        with contextlib.suppress(Failure):
            admin("--op", "show", "--mode", "sys")
            return True
        return False

    server = Server(["tgtd", "-f"], env=machine.under_softrdma(ipc) if not machine.has_rdma_device() else env)
    try:
        server.wait_ready(answers)
        admin("--op", "new", "--mode", "target", "--tid", "1", "-T", target)
        admin("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk)
        admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
        admin("--op", "bind", "--mode", "target", "--tid", "1", "-Q", ISER_INITIATOR)
        yield Volume(f"iscsi://127.0.0.1:{ISER_PORT}/{target}/1?iser", [server.pid])
    finally:
        server.stop()


def iscsi_perf(server, load, seconds):
    """iscsi-perf counts whole seconds, and prints a running mean."""
    # libiscsi takes for granted that what it allocates for a connection is zero.
    env = dict(machine.under_softrdma() if not machine.has_rdma_device() else os.environ, MALLOC_PERTURB_="255")
    before = cpu_us(server.pids)
    random = ["-r"] if "rand" in load.rw else []
    said, host_us = call(["iscsi-perf", "-i", ISER_INITIATOR, "-t", max(1, round(seconds)), "-m", load.depth,
                          "-b", load.block // 512,
                          *random, server.uri], env=env)
    rates = re.findall(r"iops average (\d+)", said)
    if not rates:
        raise Failure("iscsi-perf: no result")
    iops = float(rates[-1])
    n = max(1, iops * max(1, round(seconds)))
    return {"iops": iops, "mb_per_s": iops * load.block / 1e6, "host_us": host_us / n,
            "target_us": (cpu_us(server.pids) - before) / n}
