"""A host that writes stamped blocks to a volume, flushes and reads: no block may be lost, or become an older one."""

import os
import random
import socket
import struct
import sys
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "nbd"))
from harness import PATIENCE, Failure, expect, expect_data, expect_equal, wait_until  # noqa: E402
from nbd_server import FLUSH, READ, WRITE, Raw  # noqa: E402

BLOCK, BLOCKS, BATCH = 4096, 64, 8
PACE_S = 0.004


def connect(volume):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(volume.socket)
    sock.settimeout(PATIENCE)
    return Raw(sock).go()


def contents(block, stamp):
    """Its number, its stamp and a checksum of both, again and again; before the first stamp, zeroes."""
    head = struct.pack("<IQ", block, stamp)
    return (head + struct.pack("<I", zlib.crc32(head))) * (BLOCK // 16) if stamp else bytes(BLOCK)


def stamp_of(block, data):
    """The stamp of a whole block; parts of two, and blocks of another number, are wrong data."""
    stamp = struct.unpack_from("<IQ", data)[1]
    expect_data(data, contents(block, stamp), f"block {block}, stamp {stamp}")
    return stamp


class Stamps:
    """The blocks of one store, as hosts know them. A stamp only grows, and each block has one host that writes it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent = [0] * BLOCKS  # the newest that is on its way
        self.least = [0] * BLOCKS  # a read that begins now finds it, or a newer one

    def send(self, blocks, stamp):
        for block in blocks:
            self.sent[block] = stamp

    def note(self, block, stamp):
        """It was acknowledged, or read."""
        with self.lock:
            self.least[block] = max(self.least[block], stamp)

    def check(self, block, data, least, by):
        stamp = stamp_of(block, data)
        if not least <= stamp <= self.sent[block]:
            raise Failure(f"wrong data: block {block}, read {by}, has stamp {stamp}: wanted {least}, or up to "
                          f"{self.sent[block]} as sent")
        self.note(block, stamp)

    def check_store(self, path):
        """All of it, while no host writes."""
        with open(path, "rb") as store:
            for block in range(BLOCKS):
                self.check(block, store.read(BLOCK), self.least[block], f"from {os.path.basename(path)}")


class Writer(threading.Thread):
    """Writes blocks of its own, and reads any. flushes: how many batches of a hundred end with a flush."""

    def __init__(self, volume, stamps=None, blocks=range(BLOCKS), seed=1, flushes=100):
        super().__init__(daemon=True)
        self.name = volume.name
        self.raw = connect(volume)
        self.stamps = stamps or Stamps()
        self.blocks = blocks
        self.flushes = flushes
        self.stamp = self.batches = 0
        self.slowest_s = 0  # of the batches since a test has set it
        self.failure = None
        self.shall_end, self.may_run, self.rests = threading.Event(), threading.Event(), threading.Event()
        self.may_run.set()
        self.rng = random.Random(seed)
        self.start()

    def call(self, command, blocks, payloads):
        """At once, as hosts do; returns the data of each."""
        for block, payload in zip(blocks, payloads):
            self.raw.request(command, block * BLOCK, BLOCK, cookie=block, payload=payload)
        data = {}
        for _ in blocks:
            magic, error, cookie = struct.unpack(">IIQ", self.raw.recv(16))
            expect_equal((magic, error), (0x67446698, 0), f"answer of block {cookie}")
            data[cookie] = self.raw.recv(BLOCK) if command == READ else b""
        return data

    def check(self, blocks):
        least = list(self.stamps.least)
        for block, data in self.call(READ, blocks, [b""] * len(blocks)).items():
            self.stamps.check(block, data, least[block], f"by {self.name}")

    def write_some(self):
        self.stamp += 1
        blocks = self.rng.sample(self.blocks, BATCH)
        self.stamps.send(blocks, self.stamp)
        self.call(WRITE, blocks, [contents(block, self.stamp) for block in blocks])
        for block in blocks:
            self.stamps.note(block, self.stamp)
        if self.rng.randrange(100) < self.flushes:
            expect_equal(self.raw.call(FLUSH)[0], 0, "error of a flush")
        self.check(self.rng.sample(range(BLOCKS), BATCH // 2))

    def run(self):
        try:
            while not self.shall_end.wait(PACE_S):
                if not self.may_run.is_set():
                    self.rests.set()
                    self.may_run.wait()
                begin = time.monotonic()
                self.write_some()
                self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
                self.batches += 1
            self.check(range(BLOCKS))
            self.raw.disconnect()
        except Exception as error:  # noqa: whatever it is, the case reports it
            self.failure = error

    def expect_sound(self):
        if self.failure:
            raise Failure(f"the host {self.name}: {self.failure}")
        return True

    def has_gone_on(self, since):
        return self.expect_sound() and self.batches >= since + 3

    def wait_more(self):
        since = self.batches
        wait_until(lambda: self.has_gone_on(since), "the host goes on")

    def rest(self):
        """Nothing of it is on its way when this returns, and until go_on."""
        self.rests.clear()
        self.may_run.clear()
        wait_until(lambda: self.rests.wait(0.01) or not self.expect_sound(), "the host rests")

    def go_on(self):
        self.may_run.set()

    def end(self):
        self.shall_end.set()
        self.join(PATIENCE)
        self.expect_sound()
        expect(not self.is_alive(), f"the host {self.name} does not end")
