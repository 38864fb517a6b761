# SPDX-License-Identifier: BSD-3-Clause
"""From `rblk attach` to the first answered read over the NBD socket, for one volume and for many at once: the time
of all of them, and what one costs: CPU time and page faults of rblk, of what it starts and waits for, and of the
volume process. Page faults depend neither on the load nor on the machine's speed."""

import concurrent.futures as futures
import contextlib
import os
import signal
import socket
import struct
import subprocess
import time

import machine
import programs
from machine import Failure, built

NBD_CMD_READ_REQUEST, NBD_OPT_GO, NBD_REP_ACK = 0x25609513, 7, 1
BLOCK = 4096


def receive(s, n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part:
            raise Failure("the volume closed the connection")
        data += part
    return data


def read_first_block(path, name):
    """As a client that knows nothing of the volume: the handshake, the option GO, one read."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        receive(s, 18)
        export = name.encode()
        s.sendall(struct.pack(">I8sIII", 3, b"IHAVEOPT", NBD_OPT_GO, len(export) + 6, len(export)) + export + b"\0\0")
        kind = None
        while kind != NBD_REP_ACK:
            _, _, kind, n = struct.unpack(">QIII", receive(s, 20))
            receive(s, n)
            if kind >> 31:
                raise Failure(f"the volume refuses the export: {kind:#x}")
        s.sendall(struct.pack(">IHHQQI", NBD_CMD_READ_REQUEST, 0, 0, 1, 0, BLOCK))
        _, error, _ = struct.unpack(">IIQ", receive(s, 16))
        if error:
            raise Failure(f"the first read: error {error}")
        receive(s, BLOCK)


def cpu_ms(pid):
    """The CPU time of all threads of a process, also of those that have ended."""
    return time.clock_gettime(~pid << 3 | 2) * 1000  # CPUCLOCK_SCHED of the process


def page_faults(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return int(f.read().rpartition(")")[2].split()[7])


def owner_of(path):
    """The process at the other end of a socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        return struct.unpack("iii", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def attach(env, target, nsid, pids):
    """(Milliseconds of CPU, page faults) until the read is answered. Appends the volume process to pids."""
    name = f"f{nsid}"
    sockets = os.path.join(env["RBLK_RUN_DIR"], "volumes", name)
    process = subprocess.Popen([built("tools", "rblk", "rblk"), "attach", target.where, "--ns", str(nsid),
                                "--name", name, "--frontend", "socket"], env=dict(os.environ, **env), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failure(f"rblk attach: {' '.join(said.splitlines()[-1:])}")
    pid = owner_of(sockets + ".sock")
    pids.append(pid)
    read_first_block(sockets + ".nbd", name)
    return (usage.ru_utime + usage.ru_stime) * 1000 + cpu_ms(pid), usage.ru_minflt + page_faults(pid)


def is_gone(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rpartition(")")[2].split()[0] == "Z"
    return True


def end(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    machine.wait_until(lambda: all(map(is_gone, pids)), "the volumes end")


def at_once(n):
    """n attaches at the same time, after one that the figures do not have: it finds the machine cold."""
    namespaces = {nsid: "ram: 1MiB, block_size: 4096" for nsid in range(1, n + 2)}
    pids = []
    with programs.folder() as scratch, programs.rblkd(scratch, namespaces) as target:
        env = {"RBLK_RUN_DIR": os.path.join(scratch, "run"), "RBLK_STATE_DIR": scratch}
        try:
            attach(env, target, n + 1, pids)
            begun = time.monotonic()
            with futures.ThreadPoolExecutor(max_workers=n) as pool:
                results = list(pool.map(lambda nsid: attach(env, target, nsid, pids), range(1, n + 1)))
            seconds = time.monotonic() - begun
        finally:
            end(pids)
    return {"first_ms": seconds * 1000, "attach_cpu_ms": sum(cpu for cpu, _ in results) / n,
            "attach_pages": sum(pages for _, pages in results) / n}
