#!/usr/bin/python3
"""Everything that `rblk serve` requests from its system fails once, at each place of a request
(failnth.h), while NBD clients use the volume and its target disconnects it and takes it back:

  at the start    it ends with an exit code and an error message, or starts and serves;
  while it serves a request has an NBD error or a connection ends, nothing acknowledged is lost,
                  the next client is served, and no descriptor leaks;
  at the end      it ends.

It never crashes, hangs or, in a sanitizer's build, leaks. FAILNTH_STRIDE and FAILNTH_ONLY as in
test_failnth.c.
"""

import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "nbd")]
import nbd_server as nbd  # noqa: E402
from harness import (BUILD, NQN, PATIENCE, RBLK, SANITIZER_REPORT, Failure, Target, expect, expect_data,  # noqa: E402
                     run_cases, wait_until)

STARTING, SERVING, ENDING = range(3)
N_PLACES, WHERE = 8192, 240
MIB = 1 << 20
DISK = 16 * MIB
LONG_S = 5
# Errors that may end a conversation; a silence may not.
LOST = (ConnectionError, EOFError)


class Place(ctypes.Structure):
    _fields_ = [("key", ctypes.c_uint64), ("phases", ctypes.c_uint32), ("n_met", ctypes.c_uint32),
                ("where", ctypes.c_char * WHERE)]


class Shared(ctypes.Structure):
    """struct failnth."""
    _fields_ = [("is_recording", ctypes.c_uint32), ("phase", ctypes.c_uint32),
                ("armed", ctypes.c_uint64), ("skip", ctypes.c_uint32), ("n_failed", ctypes.c_uint32),
                ("places", Place * N_PLACES)]


class Serve:
    """One target and, one after the other, the volume processes in which calls fail."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.disk = scratch.make_file("disk", DISK)
        self.target = Target(scratch, [f"nsid: 1, file: {self.disk}, block_size: 4096"])
        self.path = scratch.make_file("failnth", ctypes.sizeof(Shared))
        with open(self.path, "r+b") as f:
            self.shared = Shared.from_buffer(mmap.mmap(f.fileno(), 0))
        self.log = scratch.file("serve.log")
        self.socket = scratch.file("run/volumes/v.nbd")
        self.process = None
        self.round = 0
        self.n_fds = 0

    # -- the process

    def spawn(self):
        libraries = [os.environ["LIBFAILNTH"],
                     os.path.join(BUILD, "softrdma", "libsoftrdma.so")]
        env = dict(self.scratch.env, FAILNTH=self.path, LD_PRELOAD=":".join(libraries))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [RBLK, "serve", f"{NQN}@{self.target.address}", "--name", "v", "--frontend", "socket",
                 "--queues", "2", "--reconnect-delay", "20ms", "--verbose"],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def try_start(self):
        """True when it is ready; False when it has ended."""
        self.spawn()
        wait_until(lambda: self.has_ended() or "nbd+unix:" in self.read_log(), "rblk starts or ends")
        return not self.has_ended()

    def has_ended(self):
        return self.process.poll() is not None

    def end(self):
        """Sends SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise Failure("it does not end") from None

    def count_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kept_fds(self):
        """None, once there are no more descriptors than at first; else how many more."""
        return self.count_fds() - self.n_fds

    # -- the record

    def record(self, is_on):
        self.shared.is_recording = is_on

    def be_in(self, phase):
        self.shared.phase = phase

    def arm(self, place):
        self.shared.skip = self.shared.n_failed = 0
        self.shared.armed = place.key

    def disarm(self):
        """Whether the armed place was met."""
        self.shared.armed = 0
        return self.shared.n_failed > 0

    def places(self, phase):
        """The sample, and the others."""
        only = os.environ.get("FAILNTH_ONLY", "").encode()
        stride = int(os.environ.get("FAILNTH_STRIDE", 1))
        met = [place for place in self.shared.places
               if place.key and place.phases >> phase & 1 and only in place.where]
        return met[::stride], [place for i, place in enumerate(met) if i % stride]

    def close(self):
        if self.process and not self.has_ended():
            self.process.kill()
            self.process.wait()
        self.target.stop()


# ---- what clients do ----


class Client:
    """A connection that tolerates anything but silence; after its loss calls return None."""

    def __init__(self, serve, is_structured):
        self.raw = None
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(PATIENCE)
        try:
            s.connect(serve.socket)
            raw = nbd.Raw(s).greet()
            raw.option(nbd.LIST)
            if is_structured:
                raw.is_structured = raw.option(nbd.STRUCTURED_REPLY)[-1][0] == nbd.ACK
                raw.option(nbd.SET_META, nbd.meta(b"v", b"base:allocation"))
                raw.option(nbd.INFO, nbd.go_data(b"v", 1, 2, 3))
            if raw.option(nbd.GO, nbd.go_data(b"v"))[-1][0] == nbd.ACK:
                self.raw = raw
        except (*LOST, BlockingIOError, FileNotFoundError):
            s.close()

    def call(self, command, *args, **kwargs):
        """0, an NBD error, or None; of a read (that, data)."""
        error, data = None, b""
        try:
            if self.raw and self.raw.is_structured and command != nbd.READ:
                error = self.structured(command, *args, **kwargs)
            elif self.raw:
                error, data = self.raw.call(command, *args, **kwargs)
        except LOST:
            self.close()
        return (error, data) if command == nbd.READ else error

    def structured(self, command, offset=0, length=0, flags=0, payload=b""):
        self.raw.request(command, offset, length, flags, 7, payload)
        error, kind = 0, None
        while kind is None or not end & 1:
            magic = self.raw.sock.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
            if magic == b"\x67\x44\x66\x98":
                return self.raw.recv_simple()[1]
            _, end, kind, body = self.raw.recv_chunk()
            if kind & 0x8000:
                error = int.from_bytes(body[:4], "big")
        return error

    def close(self):
        if self.raw:
            self.raw.sock.close()
        self.raw = None


class Disk:
    """The acknowledged writes of all clients, by offset."""

    def __init__(self):
        self.known = {}

    def write(self, client, offset, data, flags=0):
        error = client.call(nbd.WRITE, offset, len(data), flags, data)
        self.keep(offset, data, error)

    def keep(self, offset, data, error):
        self.known.pop(offset, None)
        if error == 0:
            self.known[offset] = data

    def check(self, client):
        """Whether all of it could be read; a difference raises a Failure."""
        for offset, data in self.known.items():
            error, got = client.call(nbd.READ, offset, len(data))
            if error != 0:
                return False
            expect_data(got, data, f"an acknowledged write at {offset}")
        return True


def rpc(path, method, **params):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        try:
            s.connect(path)
            s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                                  "params": params}).encode() + b"\n")
            with s.makefile("r") as f:
                return json.loads(f.readline() or "{}").get("result") or {}
        except (*LOST, BlockingIOError, FileNotFoundError, ValueError):
            return {}  # json-c may lack memory in the middle of a response


def lose_target(target):
    """The target removes the volume's host, and admits it again."""
    wait_until(lambda: rpc(target.control, "drain", portal="p").get("queue_pairs") == 0,
               "the target has no connections")
    rpc(target.control, "drain", portal="p", undo=True)


def use(serve, first, second, disk):
    seed = bytes([serve.round % 255 + 1])

    disk.write(first, 0, seed * 65536, nbd.FUA)
    disk.write(second, MIB, seed * MIB)
    disk.write(first, 4 * MIB + 100, seed * 300)
    disk.write(second, 8 * MIB, seed * 65536)
    error = second.call(nbd.WRITE_ZEROES, 8 * MIB, 65536)
    disk.keep(8 * MIB, bytes(65536), error)
    first.call(nbd.TRIM, 12 * MIB, 65536)
    first.call(nbd.BLOCK_STATUS, 0, MIB)
    first.call(nbd.CACHE, 0, 65536)
    second.call(nbd.READ, MIB + 5, 3000)
    first.call(nbd.FLUSH)


def scenario(serve):
    """All that clients, an administrator and the target do in a round."""
    serve.round += 1
    disk = Disk()
    first, second = Client(serve, True), Client(serve, False)
    use(serve, first, second, disk)
    rpc(serve.scratch.file("run/volumes/v.sock"), "status")
    os.truncate(serve.disk, DISK + serve.round * 4096)
    rpc(serve.target.control, "ns_resize", subsystem=NQN, nsid=1)
    lose_target(serve.target)
    disk.write(first, 13 * MIB, b"after" * 1000)
    disk.write(second, 14 * MIB, b"after" * 1000)
    first.close()
    second.close()
    return disk


def is_served(serve, disk):
    client = Client(serve, False)
    try:
        return disk.check(client) and client.call(nbd.WRITE, 15 * MIB, 4096, 0, bytes(4096)) == 0
    finally:
        client.close()


def expect_served(serve, disk):
    wait_until(lambda: serve.has_ended() or is_served(serve, disk), "the next client is served")
    expect(not serve.has_ended(), f"it died: {serve.process.returncode}")


# ---- the sweeps ----


def record_all(serve):
    expect(serve.try_start(), "rblk does not start")
    serve.end()
    serve.record(True)
    expect(serve.try_start(), "rblk does not start")
    serve.be_in(SERVING)
    for _ in range(2):
        disk = scenario(serve)
        expect(len(disk.known) == 6, "a write was not acknowledged, and nothing has failed")
        expect_served(serve, disk)
    serve.be_in(ENDING)
    expect(serve.end() == 0, "it does not end well")
    serve.record(False)


def sweep(scratch, phase, test):
    serve = Serve(scratch)
    n_failed, problems = 0, []
    try:
        record_all(serve)
        places, others = serve.places(phase)
        for place in places + others:
            if place in others and (n_failed or problems):
                break  # they are for a sample of which none was met: some places are rarely reached
            where, before = place.where.decode(), time.monotonic()
            try:
                n_failed += test(serve, place)
                expect(not SANITIZER_REPORT.search(serve.read_log()), "a sanitizer's report")
            except Failure as failure:
                problems.append(f"{where}: {failure}\n{serve.read_log()[-3000:]}")
                serve.disarm()
                if not serve.has_ended():
                    serve.process.kill()
                    serve.process.wait()
            if time.monotonic() - before > LONG_S:
                print(f"# {where}: that took long", flush=True)
        print(f"# {len(places)} places, failed at {n_failed}", flush=True)
        expect(places or os.environ.get("FAILNTH_ONLY"), "nothing was recorded")
        expect(n_failed or problems or os.environ.get("FAILNTH_ONLY"), "no injected failure was met")
        expect(not problems, "\n".join(problems))
    finally:
        serve.close()


def fail_at_start(serve, place):
    serve.be_in(STARTING)
    serve.arm(place)
    is_ready = serve.try_start()
    has_failed = serve.disarm()
    if is_ready:
        expect_served(serve, Disk())
        expect(serve.end() == 0, "it started, and did not end well")
        return has_failed
    status = serve.process.returncode
    expect(0 < status <= 9, f"it did not refuse to start, it died: {status}")
    said = [line for line in serve.read_log().splitlines() if ": error: " in line]
    expect(len(said) == 1, f"it does not say in one line why it does not start: {said}")
    return has_failed


def fail_while_serving(serve, place):
    if serve.process is None or serve.has_ended():
        expect(serve.try_start(), "rblk does not start")
        serve.be_in(SERVING)
        expect_served(serve, scenario(serve))
        serve.n_fds = serve.count_fds()
    serve.arm(place)
    disk = scenario(serve)
    has_failed = serve.disarm()
    expect_served(serve, disk)
    wait_until(lambda: serve.kept_fds() <= 0, "no descriptor stays behind")
    return has_failed


def fail_at_end(serve, place):
    serve.be_in(STARTING)
    expect(serve.try_start(), "rblk does not start")
    disk = scenario(serve)
    expect_served(serve, disk)
    serve.be_in(ENDING)
    serve.arm(place)
    status = serve.end()
    expect(0 <= status <= 9, f"it died: {status}")
    return serve.disarm()


run_cases([
    ("starts, or says why not", lambda scratch: sweep(scratch, STARTING, fail_at_start)),
    ("serves the next", lambda scratch: sweep(scratch, SERVING, fail_while_serving)),
    ("ends", lambda scratch: sweep(scratch, ENDING, fail_at_end)),
])
