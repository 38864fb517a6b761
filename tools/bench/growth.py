# SPDX-License-Identifier: BSD-3-Clause
"""Costs that grow with the number of namespaces and volumes: time to start, time of a change, memory."""

import concurrent.futures as futures
import contextlib
import os
import re
import time

import machine
import programs
from machine import Server, built, call, cpu_us

IDLE_S = 2.0


def resident_bytes(pid):
    """(All that is resident, the program's share of it.)"""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        kib = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", f.read(), re.MULTILINE))
    return int(kib["Rss"]) * 1024, int(kib["Pss"]) * 1024


def percent_of_cpu(pids, seconds=IDLE_S):
    before, start = cpu_us(pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_us(pids) - before) / ((time.monotonic() - start) * 1e6) * 100


# ---- namespaces -------------------------------------------------------------------------

def files(scratch, n):
    paths = {nsid: os.path.join(scratch, f"disk-{nsid}") for nsid in range(1, n + 1)}
    for path in paths.values():
        with open(path, "wb") as f:
            f.truncate(1 << 20)
    return {nsid: f"file: {path}" for nsid, path in paths.items()}


def with_namespaces(n):
    """rblkd with n files: its start, a change that adds one more, its memory."""
    with programs.folder("/dev/shm") as scratch:
        namespaces = files(scratch, n + 1)
        extra = {n + 1: namespaces.pop(n + 1)}
        start = time.monotonic()
        with programs.rblkd(scratch, namespaces) as target:
            started = time.monotonic() - start
            resident, _ = resident_bytes(target.pid)
            path = programs.write_config(scratch, target.port, namespaces | extra, "{}")
            start = time.monotonic()
            call(programs.rblkctl(scratch, "apply", path))
            return {"start_ms": started * 1000, "change_ms": (time.monotonic() - start) * 1000,
                    "memory_mb": resident / 1e6}


# ---- volumes ----------------------------------------------------------------------------

@contextlib.contextmanager
def served(scratch, target, n):
    """n volumes of one namespace; (their servers, the seconds until all were there)."""
    with contextlib.ExitStack() as stack:
        def start(i):
            command, env, path = programs.volume_command(scratch, target, 1, f"g{i}")
            server = Server(command, env=dict(os.environ, **env))
            stack.callback(server.stop)
            return server, path

        begun = time.monotonic()
        servers = [start(i) for i in range(n)]
        with futures.ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda s: s[0].wait_ready(lambda: os.path.exists(s[1]) and machine.accepts(s[1])),
                          servers))
        yield [server for server, _ in servers], time.monotonic() - begun


def with_volumes(n):
    """n volume processes and rblkd: the time until all are attached, memory, CPU while idle."""
    with programs.folder() as scratch, \
            programs.rblkd(scratch, {1: "ram: 64MiB, block_size: 4096"}) as target, \
            served(scratch, target, n) as (servers, seconds):
        pids = [server.pid for server in servers]
        shares = [resident_bytes(pid)[1] for pid in [*pids, target.pid]]
        return {"start_ms": seconds * 1000, "memory_mb": sum(shares) / 1e6,
                "cpu_percent": percent_of_cpu([*pids, target.pid])}
