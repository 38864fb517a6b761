# SPDX-License-Identifier: BSD-3-Clause
"""Programs that are measured, and what they cost: start, wait until ready, CPU time, stop."""

import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("RBLK_BUILD") or os.path.join(ROOT, "build", "release")
READY_S = 30


class Failure(Exception):
    """A measurement that was not possible, in one line."""


class Missing(Failure):
    """A program or a device that this machine does not have."""


def built(*path):
    """A program of ours."""
    return os.path.join(BUILD, *path)


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise Missing(f"{program} is not installed; see tools/packages bench")


def wait_until(condition, what, seconds=READY_S):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.02)


PORTS = iter(random.sample(range(10000, 32000), 22000))
TAKEN = []


def free_port():
    """A port below the range of ephemeral ports, reserved against other callers by holding it in UDP, which
    disturbs no listener: RDMA ports are a name space of their own."""
    while True:
        port = next(PORTS)
        holder = socket.socket(type=socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
            TAKEN.append(holder)
            return port
        except OSError:
            holder.close()


def accepts(address):
    """Whether a program listens at a path or at (host, port)."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as s:
        return s.connect_ex(address) == 0


def under_softrdma(env=None):
    """The environment that makes a foreign program use the software provider."""
    library = built("softrdma", "libsoftrdma.so")
    return dict(os.environ, LD_PRELOAD=library, **(env or {}))


def has_rdma_device():
    return bool(os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"))


def call(command, env=None, timeout=300, cwd=None):
    """Runs a command. Returns (its output, microseconds of CPU that it used)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False, timeout=timeout, env=env, cwd=cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        said = [line.strip() for line in said if "error" in line or '"message"' in line][:2] or said[-1:]
        raise Failure(f"{os.path.basename(str(command[0]))}: status {done.returncode}: {' '.join(said)}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, seconds * 1e6


class Server:
    """A program in the background; its CPU time can be asked for."""

    def __init__(self, command, env=None, cwd=None):
        self.name = os.path.basename(str(command[0]))
        # Its place is shared with the program, which must not write where we read.
        self.log = tempfile.TemporaryFile("a+", errors="replace")
        self.process = subprocess.Popen([str(c) for c in command], env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)

    def wait_ready(self, condition, seconds=READY_S):
        def look():
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended: {' '.join(self.said().splitlines()[-1:])}")
            return condition()
        wait_until(look, f"{self.name} is ready", seconds)
        return self

    def wait_ended(self, seconds=READY_S):
        wait_until(lambda: self.process.poll() is not None, f"{self.name} ends", seconds)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def has_said(self, text):
        return text in self.said()

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)  # it may be paused
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def cpu_us(pids):
    """Microseconds of CPU that these processes have used, with those of their threads that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime(cpu_clock(pid))
    return total * 1e6


def cpu_clock(pid):
    """The clock of another process's CPU time, as clock_getcpuclockid(3) makes its id."""
    return ~pid << 3 | 2


def own_segment(pid):
    """The path of a program's segment of the software provider. It maps those of its peers, but they are theirs."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            path = f"/proc/{pid}/fd/{fd}"
            if os.readlink(path).startswith("/memfd:softrdma"):
                return path
    raise Failure("the software provider is not there")


def own_bytes(pid, segment):
    """A program's own memory, that is: what is anonymous, and this segment of its."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        anonymous = next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))
    return anonymous + os.stat(segment).st_blocks * 512


def description():
    """The machine and its load, for the record."""
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpus": os.cpu_count(), "model": model, "memory_bytes": memory,
            "kernel": os.uname().release, "load": round(os.getloadavg()[0], 2),
            "fabric": "RDMA device" if has_rdma_device() else "softrdma",
            "build": os.path.basename(BUILD)}
