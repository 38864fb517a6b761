#!/usr/bin/python3
"""Read-modify-write against concurrent writes on several connections: no update is ever lost.

Every byte of the area has one owner (a connection), which writes it in pieces of any alignment, mixed
with whole blocks, zeroes and trims of its own; neighbours share blocks. At the end each byte must
have the last value its owner wrote, whatever the others did to the block around it.
"""

import random
import threading

from nbd_server import (FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES, Server, expect, expect_equal)
from harness import IS_SANITIZED, run_cases

ROUNDS = 40 if IS_SANITIZED else 60


class Owner(threading.Thread):
    """One connection that owns the byte ranges given, and a model of what it wrote there."""

    def __init__(self, server, ranges, seed, depth):
        super().__init__()
        self.raw = server.go(structured=seed % 2)
        self.model = {start: bytearray(end - start) for start, end in ranges}
        self.random = random.Random(seed)
        self.depth = depth
        self.error = None

    def run(self):
        try:
            for _ in range(ROUNDS):
                self.round()
        except Exception as error:  # shown by the main thread
            self.error = error

    def round(self):
        """Some requests that do not overlap each other, all in flight at once."""
        starts = self.random.sample(sorted(self.model), min(self.depth, len(self.model)))
        for start in starts:
            model = self.model[start]
            at = self.random.randrange(len(model))
            n = self.random.randint(1, len(model) - at)
            flags = FUA if self.random.random() < 0.1 else 0
            if self.random.random() < 0.2:
                model[at:at + n] = bytes(n)
                self.raw.request(WRITE_ZEROES, start + at, n, flags)
            else:
                data = self.random.randbytes(n)
                model[at:at + n] = data
                self.raw.request(WRITE, start + at, n, flags, payload=data)
        for _ in starts:
            expect_equal(self.raw.recv_simple()[1], 0, "error of a write")


def contend(server, ranges_of, n_owners, depth):
    owners = [Owner(server, ranges_of(i), i, depth) for i in range(n_owners)]
    for owner in owners:
        owner.start()
    for owner in owners:
        owner.join()
    for owner in owners:
        if owner.error:
            raise owner.error
    raw = server.go()
    for i, owner in enumerate(owners):
        for start, model in owner.model.items():
            error, got = raw.call(READ, start, len(model))
            expect_equal(error, 0, "read")
            if got != model:
                at = next(k for k in range(len(model)) if got[k] != model[k])
                expect(False, f"connection {i}: byte {start + at} was lost")
    server.stop()


def case_neighbours_in_blocks(scratch):
    """Six connections on four queues; every block belongs to all six, in slices."""
    def slices(i):
        return [(block * 4096 + i * 682, block * 4096 + (i + 1) * 682) for block in range(24)]
    contend(Server(scratch, DELAY_US=300), slices, 6, 8)


def case_ends_of_long_writes(scratch):
    """Long unaligned writes that meet in the middle of blocks; whole blocks between the ends."""
    def areas(i):
        return [((k * 4 + i) * 50001 + 77, (k * 4 + i + 1) * 50001 + 77) for k in range(6)]
    contend(Server(scratch, DELAY_US=300, MAX_IO=16384), areas, 4, 3)


def case_one_queue_for_all(scratch):
    def slices(i):
        return [(block * 4096 + i * 1024, block * 4096 + (i + 1) * 1024) for block in range(8)]
    contend(Server(scratch, DELAY_US=300, QUEUES=1), slices, 4, 8)


def case_small_blocks(scratch):
    def slices(i):
        return [(block * 512 + i * 128, block * 512 + (i + 1) * 128) for block in range(64)]
    contend(Server(scratch, DELAY_US=200, BLOCK_SIZE=512), slices, 4, 16)


def case_zeroes_by_writing(scratch):
    def slices(i):
        return [(block * 9000 + i * 3000, block * 9000 + (i + 1) * 3000) for block in range(16)]
    contend(Server(scratch, DELAY_US=200, NO_ZEROES=1), slices, 3, 8)


def case_far_apart_in_one_stripe(scratch):
    """Blocks 64 MiB apart share a lock without sharing data."""
    def slices(i):
        return [(k * (64 << 20) + i * 1365, k * (64 << 20) + (i + 1) * 1365) for k in range(8)]
    contend(Server(scratch, SIZE=1 << 30, DELAY_US=200), slices, 3, 8)


def case_pieces_pass_a_stream_of_blocks(scratch):
    """A read-modify-write is not starved by whole-block writes that never pause."""
    server = Server(scratch, DELAY_US=500)
    stop = threading.Event()

    def stream():
        raw = server.go()
        for i in range(32):
            raw.request(WRITE, 65536 + i * 4096, 4096, payload=bytes(4096))
        while not stop.is_set():
            raw.recv_simple()
            raw.request(WRITE, 65536 + random.randrange(32) * 4096, 4096, payload=bytes(4096))
        for _ in range(32):
            raw.recv_simple()

    threads = [threading.Thread(target=stream) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        raw = server.go()
        for i in range(100):
            expect_equal(raw.call(WRITE, 100 + i, 7, payload=b"1234567")[0], 0, "piece")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    server.stop()


def case_flush_and_trim_among_them(scratch):
    server = Server(scratch, DELAY_US=500)
    raw = server.go()
    for i in range(300):
        command = (WRITE, WRITE_ZEROES, TRIM, FLUSH)[i % 4]
        n = 0 if command == FLUSH else 4099
        offset = 0 if command == FLUSH else i * 100
        error, _ = raw.call(command, offset, n, payload=bytes(n) if command == WRITE else b"")
        expect_equal(error, 0, f"command {command}")
    server.stop()


if __name__ == "__main__":
    run_cases([(name[5:].replace("_", " "), function)
               for name, function in list(globals().items()) if name.startswith("case_")])
