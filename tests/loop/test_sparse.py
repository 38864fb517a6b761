#!/usr/bin/python3
"""Sparse stays sparse: what a file has as a hole is a hole to NBD clients, and a copy moves only the data."""

import json
import os
import random
import sys
import threading

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import Target, Volume, expect, expect_data, expect_equal, find_key, run, run_cases  # noqa: E402

import nbd  # noqa: E402

MIB = 1 << 20
TIB = 1 << 40
HOLE, DATA = 3, 0


def make(path, size, pieces=()):
    """pieces: (offset, bytes)"""
    with open(path, "wb") as f:
        f.truncate(size)
        for offset, data in pieces:
            f.seek(offset)
            f.write(data)
        f.flush()
        os.fsync(f.fileno())
    return path


def serve(scratch, namespace):
    target = Target(scratch, [f"nsid: 1, {namespace}"])
    volume = Volume(target, 1)
    return target, volume, volume.uri


def client(volume):
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_unix(volume.socket)
    return h


def extents_of(h):
    """[offset, length, flags] of the whole volume, neighbours joined."""
    found, at, size = [], 0, h.get_size()

    def add(_context, offset, entries, _error):
        nonlocal at
        expect_equal(offset, at, "where an answer begins")
        for length, flags in zip(entries[::2], entries[1::2]):
            if found and found[-1][2] == flags:
                found[-1][1] += length
            else:
                found.append([at, length, flags])
            at += length
        return 0
    while at < size:
        before = at
        h.block_status(min(size - at, (1 << 32) - MIB), at, add)
        expect(at > before, "each answer gets further")
    return found


def moved(volume):
    """Bytes that clients have read from the volume."""
    return find_key(volume.status(), "read_bytes")


def empty_volume(scratch):
    """1 TiB without data: its map is one hole, and its copy moves nothing."""
    path = make(scratch.file("disk"), TIB)
    target, volume, uri = serve(scratch, f"file: {path}")
    entries = json.loads(run("nbdinfo", "--map", "--json", uri).stdout)
    expect_equal([(e["offset"], e["length"], e["type"]) for e in entries], [(0, TIB, HOLE)], "the map")
    copy = scratch.file("copy.raw")
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", uri, copy)
    expect_equal(os.path.getsize(copy), TIB, "size of the copy")
    expect(os.stat(copy).st_blocks * 512 < MIB, "the copy is sparse")
    expect(moved(volume) < MIB, "nothing is moved")
    volume.detach()
    target.stop()


def volume_with_data(scratch):
    """Pieces of all sizes, at odd places: the copy is the same, and little else is read."""
    rng = random.Random(7)
    size, block = 64 * MIB, 4096
    pieces = [(rng.randrange(size // block - 64) * block + rng.choice((0, 100)), rng.randbytes(rng.choice((1, 5000, 200000))))
              for _ in range(40)] + [(size - 1, b"z")]
    path = make(scratch.file("disk"), size, pieces)
    target, volume, uri = serve(scratch, f"file: {path}, block_size: 512")
    copy = scratch.file("copy.raw")
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", uri, copy)
    with open(path, "rb") as a, open(copy, "rb") as b:
        expect_data(b.read(), a.read(), "the copy")
    allocated = os.stat(path).st_blocks * 512
    expect(moved(volume) <= allocated + 2 * MIB, f"read {moved(volume)} bytes of {allocated}")
    h = client(volume)
    with open(path, "rb") as f:
        for offset, length, flags in extents_of(h):
            f.seek(offset)
            if flags != DATA:
                expect_data(f.read(length), bytes(length), f"a hole at {offset}")
    expect(any(e[2] == HOLE for e in extents_of(h)), "there are holes")
    h.shutdown()
    volume.detach()
    target.stop()


def what_was_answered_is_seen(scratch):
    """A write, a trim and zeroes change the map at once, on each connection; bytes within a block, too."""
    path = make(scratch.file("disk"), 16 * MIB)
    target, volume, _ = serve(scratch, f"file: {path}")
    a, b = client(volume), client(volume)
    expect_equal(extents_of(b), [[0, 16 * MIB, HOLE]], "at first")
    a.pwrite(b"x" * 8192, MIB)
    want = [[0, MIB, HOLE], [MIB, 8192, DATA], [MIB + 8192, 15 * MIB - 8192, HOLE]]
    expect_equal(extents_of(b), want, "after a write")
    a.zero(4096, MIB)
    expect_equal(extents_of(b), [[0, MIB + 4096, HOLE], [MIB + 4096, 4096, DATA],
                                 [MIB + 8192, 15 * MIB - 8192, HOLE]], "after zeroes")
    a.trim(4096, MIB + 4096)
    expect_equal(extents_of(b), [[0, 16 * MIB, HOLE]], "after a trim")
    answers = []
    a.pwrite(b"x" * 4096, 0)
    b.block_status(600, 4000, lambda _c, offset, entries, _e: answers.append((offset, entries)) or 0)
    expect_equal(answers, [(4000, [96, DATA, 504, HOLE])], "of bytes")
    answers.clear()
    b.block_status(600, 4000, lambda _c, offset, entries, _e: answers.append((offset, entries)) or 0,
                   flags=nbd.CMD_FLAG_REQ_ONE)
    expect_equal(answers, [(4000, [96, DATA])], "of one extent")
    a.shutdown()
    b.shutdown()
    volume.detach()
    target.stop()


def writes_beside_questions(scratch):
    """Each write that has its reply before the question is in the answer."""
    path = make(scratch.file("disk"), 64 * MIB)
    target, volume, _ = serve(scratch, f"file: {path}")
    a, b = client(volume), client(volume)
    done, n_blocks = [], 2000
    over = threading.Event()

    def write():
        rng = random.Random(3)
        for block in rng.sample(range(64 * MIB // 4096), n_blocks):
            a.pwrite(b"w" * 4096, block * 4096)
            done.append(block)
        over.set()
    thread = threading.Thread(target=write)
    thread.start()
    looks = 0
    while looks < 3 or not over.is_set():
        known = list(done)
        holes = [e for e in extents_of(b) if e[2] == HOLE]
        for block in known:
            expect(not any(o <= block * 4096 < o + n for o, n, _ in holes), f"block {block} is no hole")
        looks += 1
    thread.join()
    expect(looks >= 3, "there were questions")
    a.shutdown()
    b.shutdown()
    volume.detach()
    target.stop()


def stores_without_holes(scratch):
    """Memory may hold data everywhere; while the target is gone, so may everything."""
    path = make(scratch.file("disk"), 16 * MIB)
    target = Target(scratch, ["nsid: 1, ram: 16MiB", f"nsid: 2, file: {path}"])
    memory, disk = Volume(target, 1), Volume(target, 2)
    h = client(memory)
    expect_equal(extents_of(h), [[0, 16 * MIB, DATA]], "memory")
    h.shutdown()
    memory.detach()
    h = client(disk)
    expect_equal(extents_of(h), [[0, 16 * MIB, HOLE]], "a file")
    target.kill()
    expect_equal(extents_of(h), [[0, 16 * MIB, DATA]], "without a target")
    target.start()
    disk.wait_live()
    expect_equal(extents_of(h), [[0, 16 * MIB, HOLE]], "with it again")
    h.shutdown()
    disk.detach()
    target.stop()


CASES = (empty_volume, volume_with_data, what_was_answered_is_seen, writes_beside_questions, stores_without_holes)
run_cases([(case.__name__.replace("_", " "), case) for case in CASES
           if len(sys.argv) < 2 or sys.argv[1] in case.__name__])
