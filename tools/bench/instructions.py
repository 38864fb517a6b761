# SPDX-License-Identifier: BSD-3-Clause
"""User-space instructions an I/O costs one of our programs, the software provider's excluded.

callgrind runs the program on one CPU, told never to poll, and writes down what each million of
basic blocks did: a window. The windows with the most I/Os tell what an I/O costs. In the others the
program also started, or went to sleep and woke up because the machine had no time for its peer.
Instructions of the program and its libraries count, those of the provider and what it calls do not."""

import contextlib
import ctypes
import glob
import os
import re
import shutil
import socket
import statistics
import struct
import threading

import machine
import programs
from machine import Failure, built

PIDFD_GETFD = 438
PROVIDER = "libsoftrdma"
SECONDS = 3
WINDOW = 1000 * 1000  # basic blocks
N_WINDOWS = 5  # the fullest
MIN_PER_WINDOW = 1000  # I/Os
NAMESPACE = "ram: 64MiB, block_size: 4096"
LOAD = programs.Load("randread", 4096, 32)


def read_profile(path, per_io):
    """Reads a callgrind.out file: (calls of the function per_io, instructions that are the program's own:
    all, less what the provider executes and calls)."""
    total = provider = n = 0
    here = callee = ""
    calls = None  # of the call whose cost the next line has
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            key, _, value = line.partition("=")
            if key == "ob":
                here = callee = value.strip()
            elif key == "cob":
                callee = value.strip()
            elif key in ("fn", "cfn"):
                # LTO renames a static function of whose name there are several
                function = value.strip().partition(".lto_priv.")[0]
            elif key == "calls":
                calls = int(value.split()[0])
                n += calls if function == per_io else 0
            elif re.match(r"[+\-*\d]", line):
                cost = int(line.split()[1])
                if calls is None:
                    total += cost
                # The cost of a call is all that happens in it: what the provider calls is its own.
                if PROVIDER in here and (calls is None or PROVIDER not in callee):
                    provider += cost
                calls, callee = None, here
    return n, total - provider


class PidfdHelper:
    """Does for a program under valgrind what that does not know (pidfd_shim.c asks)."""

    def __init__(self, scratch):
        self.path = os.path.join(scratch, "pidfd")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen()
        self.libc = ctypes.CDLL(None, use_errno=True)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            with client:
                pid, there = struct.unpack("ii", client.recv(8))
                fds = [os.pidfd_open(pid)]
                if there >= 0:
                    fds.append(self.libc.syscall(PIDFD_GETFD, fds[0], there, 0))
                if fds[-1] >= 0:
                    socket.send_fds(client, [b"f"], fds[-1:])
                for fd in fds:
                    if fd >= 0:
                        os.close(fd)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Traced:
    """A server under callgrind, with the provider preloaded."""

    def __init__(self, scratch, window, command, condition, env=None):
        self.out = os.path.join(scratch, "callgrind.out")
        self.helper = PidfdHelper(scratch)
        env = machine.under_softrdma({"BENCH_PIDFD_SOCKET": self.helper.path, **(env or {})})
        env["LD_PRELOAD"] = built("tools", "bench", "libbench-pidfd.so") + ":" + env["LD_PRELOAD"]
        self.server = machine.Server(
            ["taskset", "-c", "0", "valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}",
             f"--dump-every-bb={window}", "--compress-strings=no", *command], env=env)
        try:
            self.server.wait_ready(lambda: condition(self.server))
        except Failure:
            self.server.stop()
            raise

    def end(self):
        """The profiles of its windows, as paths."""
        self.server.stop()
        self.helper.close()
        windows = glob.glob(self.out + ".[0-9]*")
        keep = os.environ.get("RBLK_BENCH_CALLGRIND")  # a folder, for callgrind_annotate
        for path in windows if keep else []:
            shutil.copy(path, os.path.join(keep, f"{self.server.pid}{os.path.splitext(path)[1]}.callgrind"))
        return windows


def instructions_per_io(windows, per_io):
    fullest = sorted((read_profile(path, per_io) for path in windows), reverse=True)[:N_WINDOWS]
    if len(fullest) < N_WINDOWS or fullest[-1][0] < MIN_PER_WINDOW:
        raise Failure("too busy a machine to count instructions")
    return statistics.median(cost / n for n, cost in fullest)


@contextlib.contextmanager
def target_windows(load, seconds, namespace, window=WINDOW):
    """The windows of rblkd under a load of rblk bench."""
    with programs.folder() as scratch:
        port = machine.free_port()
        config = programs.write_config(scratch, port, {1: namespace}, "{spin: never, workers: 1}")
        traced = Traced(scratch, window, [built("target", "rblkd"), "--config", config],
                        lambda server: server.has_said(programs.READY))
        try:
            programs.rblk_bench(programs.Target(traced.server, port), 1, load, seconds)
        finally:
            windows = traced.end()
        yield windows


@contextlib.contextmanager
def volume_windows(load, seconds, namespace, window=WINDOW):
    """The windows of a volume process under a load of fio."""
    with programs.folder() as scratch, programs.rblkd(scratch, {1: namespace}) as target:
        command, env, path = programs.volume_command(scratch, target, 1)
        traced = Traced(scratch, window, [*command, "--spin", "never"],
                        lambda _: os.path.exists(path) and machine.accepts(path), env)
        try:
            programs.fio_nbd(programs.Volume(f"nbd+unix:///?socket={path}", []), load, seconds)
        finally:
            windows = traced.end()
        yield windows


def of_target():
    with target_windows(LOAD, SECONDS, NAMESPACE) as windows:
        return instructions_per_io(windows, "request_on_recv")


def of_volume():
    with volume_windows(LOAD, SECONDS, NAMESPACE) as windows:
        return instructions_per_io(windows, "on_read")
