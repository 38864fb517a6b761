#!/usr/bin/python3
"""The transmission phase: every command, its bounds and flags, simple and structured replies."""

import os
import signal
import struct
import threading

from nbd_server import (BLOCK_STATUS, CACHE, CHUNK_DATA, CHUNK_ERROR, CHUNK_ERROR_OFFSET, CHUNK_NONE,
                        CHUNK_STATUS, DF, EINVAL, EIO, ENOSPC, ENOTSUP, EPERM, FAST_ZERO, FLUSH, FUA,
                        MIB, NO_HOLE, READ, REQ_ONE, TRIM, WRITE, WRITE_ZEROES, Server, expect,
                        expect_equal, pattern)
from harness import expect_data, run_cases, wait_until

SIZE = 64 * MIB


def kinds_of_client(server):
    yield "simple", server.go()
    yield "structured", server.go(structured=True)


def case_read_write_sizes(scratch):
    """Every size and alignment from one byte to beyond the largest I/O, both kinds of reply."""
    for block_size, max_io in ((512, 64 << 10), (4096, 128 << 10), (4096, 8192), (65536, 131072)):
        server = Server(scratch, BLOCK_SIZE=block_size, MAX_IO=max_io)
        model = bytearray(4 * MIB)
        for seed, (_, raw) in enumerate(kinds_of_client(server)):
            for i, length in enumerate((1, 511, 512, 513, 4095, 4096, 4097, 65536, 131073, MIB)):
                for offset in (0, 1, 511, 512, 4096, 4097, 65535, 2 * MIB - 3):
                    data = pattern(length, (seed, i, offset).__hash__())
                    model[offset:offset + length] = data
                    expect_equal(raw.call(WRITE, offset, length, payload=data)[0], 0, "write")
                    error, got = raw.call(READ, offset, length)
                    expect_equal(error, 0, "read")
                    expect_data(got, data, f"read {length} at {offset}")
            error, got = raw.call(READ, 0, len(model))
            expect_equal(error, 0, "read")
            expect_data(got, model, "the whole, as the model has it")
            raw.disconnect()
        server.stop()


def case_largest_payload(scratch):
    server = Server(scratch, MAX_IO=256 << 10, SLAB=2 * MIB)
    for seed, (kind, raw) in enumerate(kinds_of_client(server)):
        for offset in (0, 12345):
            data = pattern(32 * MIB, seed + offset)
            expect_equal(raw.call(WRITE, offset, len(data), payload=data)[0], 0, f"{kind} write")
            error, got = raw.call(READ, offset, len(data))
            expect_equal(error, 0, "read")
            expect_data(got, data, f"{kind} read of 32 MiB")
        expect_equal(raw.call(READ, 0, 32 * MIB + 1)[0], EINVAL, "a longer read")
        expect_equal(raw.call(READ, 0, 512)[0], 0, "and still in step")
    raw.request(WRITE, 0, 32 * MIB + 1)
    raw.expect_closed()
    server.stop()


def case_bounds(scratch):
    server = Server(scratch)
    beyond = ((SIZE, 1), (SIZE - 1, 2), (SIZE + 4096, 512), (0, SIZE + 1), (2**64 - 1, 1),
              (2**64 - 512, 1024), (2**63, 2**32 - 1), (SIZE, 2**32 - 1))
    for _, raw in kinds_of_client(server):
        for offset, length in beyond:
            if length <= 4096:
                expect_equal(raw.call(WRITE, offset, length, payload=bytes(length))[0], ENOSPC,
                             f"write {length} at {offset}")
            for command, error in ((READ, EINVAL), (TRIM, EINVAL), (CACHE, EINVAL),
                                   (WRITE_ZEROES, ENOSPC)):
                expect_equal(raw.call(command, offset, length)[0], error,
                             f"command {command}: {length} at {offset}")
        for command in (READ, TRIM, CACHE, WRITE_ZEROES):
            expect_equal(raw.call(command, SIZE - 1, 1)[0], 0, f"last byte, command {command}")
            expect_equal(raw.call(command, SIZE, 0)[0], 0, f"nothing at the end, command {command}")
    server.stop()


def case_unknown_commands_and_flags(scratch):
    server = Server(scratch)
    raw = server.go()
    for command in (8, 9, 100, 0xffff):
        expect_equal(raw.call(command, 0, 512)[0], EINVAL, f"command {command}")
    for command, bad in ((READ, NO_HOLE), (READ, DF), (READ, 0x8000), (WRITE, DF), (WRITE, 32),
                         (WRITE, NO_HOLE), (TRIM, NO_HOLE), (FLUSH, DF), (CACHE, REQ_ONE),
                         (WRITE_ZEROES, DF), (WRITE_ZEROES, 0x40), (BLOCK_STATUS, 0)):
        payload = bytes(4096) if command == WRITE else b""
        expect_equal(raw.call(command, 0, 0 if command == FLUSH else 4096, bad, payload)[0], EINVAL,
                     f"command {command} with flags {bad:#x}")
    expect_equal(raw.call(FLUSH, 512, 0)[0], EINVAL, "a flush with an offset")
    expect_equal(raw.call(FLUSH, 0, 512)[0], EINVAL, "a flush with a length")
    for command in (READ, WRITE, TRIM, CACHE, WRITE_ZEROES):
        payload = bytes(4096) if command == WRITE else b""
        expect_equal(raw.call(command, 0, 4096, FUA, payload)[0], 0, f"FUA on command {command}")
    expect_equal(raw.call(FLUSH, 0, 0, FUA)[0], 0, "FUA on a flush")
    server.stop()


def case_refused_write_keeps_step(scratch):
    """The payload of a refused write is swallowed, even a large one, even in the same packet."""
    server = Server(scratch, "--read-only")
    raw = server.go()
    expect(raw.flags & 2, "READ_ONLY is announced")
    for length in (1, 4096, MIB, 32 * MIB):
        raw.request(WRITE, 0, length, 0, 1, bytes(length))
        raw.request(READ, 0, 512, 0, 2)
        expect_equal(raw.recv_simple()[:2], (1, EPERM), f"write of {length}")
        expect_equal(raw.recv_simple(512)[:2], (2, 0), "the read behind it")
    expect_equal(raw.call(TRIM, 0, 4096)[0], EPERM, "trim")
    expect_equal(raw.call(WRITE_ZEROES, 0, 4096)[0], EPERM, "zeroes")
    expect_equal(raw.call(FLUSH)[0], 0, "flush")
    server.stop()


def case_zero_lengths(scratch):
    server = Server(scratch)
    for _, raw in kinds_of_client(server):
        for command in (READ, WRITE, TRIM, CACHE, WRITE_ZEROES):
            expect_equal(raw.call(command, 4096, 0), (0, b""), f"command {command}")
    raw = server.go(context=True)
    raw.request(BLOCK_STATUS, 0, 0)
    expect_equal(raw.recv_chunk()[2], CHUNK_ERROR, "status of nothing")
    server.stop()


def zero_cases(raw, note):
    model = bytearray(pattern(2 * MIB, 5))
    raw.call(WRITE, 0, len(model), payload=bytes(model))
    for offset, length in ((0, 4096), (4096, 1), (8191, 2), (12288, 8192), (20481, 40000), (99, 300),
                           (300000, 700001), (2 * MIB - 1, 1)):
        for flags in (0, NO_HOLE, FUA, FUA | NO_HOLE):
            raw.call(WRITE, offset, length, payload=bytes(model[offset:offset + length]))
            expect_equal(raw.call(WRITE_ZEROES, offset, length, flags)[0], 0, note)
        model[offset:offset + length] = bytes(length)
    error, got = raw.call(READ, 0, len(model))
    expect_equal(error, 0, "read")
    expect_data(got, model, f"{note}: what is zero and what is not")


def case_write_zeroes(scratch):
    for block_size in (512, 4096):
        for environment in ({}, {"NO_ZEROES": 1}):
            server = Server(scratch, BLOCK_SIZE=block_size, MAX_IO=65536, **environment)
            raw = server.go()
            zero_cases(raw, f"blocks of {block_size}, {environment}")
            expect_equal(raw.call(WRITE_ZEROES, 0, MIB, FAST_ZERO)[0],
                         ENOTSUP if environment else 0, "fast zero")
            server.stop()


def case_huge_lengths_without_payload(scratch):
    """TRIM, WRITE_ZEROES, CACHE and BLOCK_STATUS take lengths up to 2^32-1."""
    size = 5 << 30
    for environment in ({}, {"NO_ZEROES": 1, "DELAY_US": 20000}):
        server = Server(scratch, SIZE=size, MAX_IO=MIB, **environment)
        raw = server.go(context=True)
        raw.call(WRITE, 4 << 30, 4096, payload=pattern(4096, 1))
        for command in (TRIM, CACHE) if environment else (TRIM, CACHE, WRITE_ZEROES):
            expect_equal(raw.call(command, 1, 2**32 - 1)[0], 0, f"command {command}")
        raw.request(BLOCK_STATUS, 0, 2**32 - 1)
        _, flags, kind, body = raw.recv_chunk()
        expect_equal((flags, kind, body), (1, CHUNK_STATUS, struct.pack(">III", 1, 2**32 - 1, 0)),
                     "status")
        if environment:  # a long fill lets others pass
            raw.send(raw.header(WRITE_ZEROES, 0, 256 * MIB, 0, 1)  # in one piece: the fill
                     + raw.header(READ, 4 << 30, 4096, 0, 2))  # is not over before the read comes
            first = raw.recv_chunk()
            expect_equal((first[0], first[2]), (2, CHUNK_DATA), "the read overtakes the fill")
            expect_equal(raw.recv_simple()[:2], (1, 0), "the fill")
        server.stop()


def case_trim(scratch):
    server = Server(scratch)
    raw = server.go()
    data = pattern(MIB, 3)
    for offset, length in ((0, 4096), (1, 4095), (1, 8191), (4095, 2), (5000, 100000)):
        raw.call(WRITE, 0, MIB, payload=data)
        expect_equal(raw.call(TRIM, offset, length, FUA)[0], 0, "trim")
        _, got = raw.call(READ, 0, MIB)
        expect_data(got[:offset] + got[offset + length:], data[:offset] + data[offset + length:],
                    f"around a trim of {length} at {offset}")
    server.stop()
    server = Server(scratch, NO_TRIM=1)
    raw = server.go()
    expect(not raw.flags & 1 << 5, "TRIM is not announced")
    expect_equal(raw.call(TRIM, 0, 4096)[0], EINVAL, "trim")
    server.stop()


def lose_power(server):
    """The volume forgets what nothing has made durable."""
    said = "the volume has lost power"
    n = server.read_log().count(said)
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: server.read_log().count(said) > n, said)


def case_what_outlives_the_power(scratch):
    """Each change with FUA does, and each without, only if a flush follows; whole blocks and pieces
    of them, over a volume with Write Zeroes and one without."""
    old = pattern(128 << 10, 1)
    new = pattern(128 << 10, 2)
    changes = ((WRITE, 8192, 65536), (WRITE, 1234, 5678), (WRITE, 4095, 2), (WRITE_ZEROES, 4096, 32768),
               (WRITE_ZEROES, 4000, 9000), (WRITE_ZEROES, 5000, 100), (TRIM, 8192, 16384))
    for environment in ({}, {"NO_ZEROES": 1}):
        server = Server(scratch, SIZE=MIB, MAX_IO=16384, CACHE=1, **environment)
        raw = server.go()
        for command, offset, length in changes:
            end = offset + length
            changed = old[:offset] + (new[offset:end] if command == WRITE else bytes(length)) + old[end:]
            for flags, must_flush, wanted in ((FUA, False, changed), (0, True, changed), (0, False, old)):
                expect_equal(raw.call(WRITE, 0, len(old), payload=old)[0], 0, "write")
                expect_equal(raw.call(FLUSH)[0], 0, "flush")
                payload = new[offset:end] if command == WRITE else b""
                expect_equal(raw.call(command, offset, length, flags, payload)[0], 0, "change")
                if must_flush:
                    expect_equal(raw.call(FLUSH)[0], 0, "flush")
                lose_power(server)
                expect_data(raw.call(READ, 0, len(old))[1], wanted,
                            f"command {command} at {offset}, {length} bytes, flags {flags}, flushed: {must_flush}")
        server.stop()


def case_block_status(scratch):
    server = Server(scratch)
    raw = server.go(context=True)
    for offset, length, flags in ((0, 1, 0), (0, SIZE, 0), (123, 456, REQ_ONE), (SIZE - 1, 1, 0)):
        raw.request(BLOCK_STATUS, offset, length, flags, 9)
        expect_equal(raw.recv_chunk(), (9, 1, CHUNK_STATUS, struct.pack(">III", 1, length, 0)), "")
    raw.request(BLOCK_STATUS, SIZE, 1)
    expect_equal(raw.recv_chunk()[2], CHUNK_ERROR, "beyond the end")
    server.stop()


def case_df(scratch):
    server = Server(scratch, MAX_IO=65536)
    raw = server.go(structured=True)
    data = pattern(4 * MIB, 8)
    raw.call(WRITE, 0, len(data), payload=data)
    for offset, length in ((0, 1), (100, 65536), (0, 200000), (3, MIB), (0, 4 * MIB)):
        raw.request(READ, offset, length, DF)
        _, flags, kind, body = raw.recv_chunk()
        expect_equal((flags, kind), (1, CHUNK_DATA), "one chunk")
        expect_data(body, struct.pack(">Q", offset) + data[offset:offset + length], "one chunk")
    raw.request(READ, 0, 4 * MIB)
    n, done = 0, False
    while not done:
        _, flags, kind, body = raw.recv_chunk()
        n, done = n + 1, flags & 1
    expect_equal(n, 64, "chunks without DF")
    server.stop()


def case_read_errors(scratch):
    server = Server(scratch, ERROR_AT=1000000, MAX_IO=65536)
    bad = 1000000 // 4096 * 4096
    raw = server.go()
    expect_equal(raw.call(READ, bad, 4096)[0], EIO, "simple")
    expect_equal(raw.call(READ, 0, MIB)[0], EIO, "simple, in the middle")
    expect_equal(raw.call(READ, 0, 4096)[0], 0, "in step")
    raw = server.go(structured=True)
    raw.request(READ, 0, 2 * MIB)
    _, error, at = raw.recv_read(0, 2 * MIB)
    expect_equal(error, EIO, "structured")
    expect(bad - 65536 < at <= bad, f"offset of the error: {at}")
    expect_equal(raw.call(READ, 0, 4096)[0], 0, "in step")
    raw.request(READ, 0, MIB, DF)
    expect_equal(raw.recv_chunk()[1:3], (1, CHUNK_ERROR_OFFSET), "with DF")
    raw.request(READ, SIZE, 1)
    expect_equal(raw.recv_chunk()[2], CHUNK_ERROR, "beyond the end")
    raw.request(READ, 0, 0)
    expect_equal(raw.recv_chunk()[1:3], (1, CHUNK_NONE), "nothing")
    server.stop()


def case_failed_stream_hangs_up(scratch):
    """A simple reply that is too large to be held fails behind its header: nothing else is left."""
    server = Server(scratch, ERROR_AT=20000000, MAX_IO=65536, SLAB=MIB)
    raw = server.go()
    raw.request(READ, 0, 32 * MIB)
    try:
        raw.recv_simple(32 * MIB)
        expect(False, "the read should have failed")
    except (EOFError, ConnectionError):
        pass
    expect_equal(server.go().call(READ, 0, 4096)[0], 0, "the next client")
    server.stop()


def case_write_errors(scratch):
    server = Server(scratch, ERROR_AT=1000000, MAX_IO=65536)
    raw = server.go()
    bad = 1000000 // 4096 * 4096
    for offset, length in ((bad, 4096), (bad + 5, 7), (0, 2 * MIB)):
        expect_equal(raw.call(WRITE, offset, length, payload=bytes(length))[0], EIO, "write")
        expect_equal(raw.call(WRITE_ZEROES, offset, length)[0], EIO, "zeroes")
        expect_equal(raw.call(READ, 0, 4096)[0], 0, "in step")
    server.stop()


def case_many_in_flight(scratch):
    """More requests than the pool holds, overtaking each other, each answered once."""
    for structured in (False, True):
        server = Server(scratch, DELAY_US=3000, SLAB=2 * MIB, MAX_IO=131072)
        raw = server.go(structured=structured)
        data = pattern(8 * MIB, 4)
        for i in range(8):
            raw.call(WRITE, i * MIB, MIB, payload=data[i * MIB:(i + 1) * MIB])
        n = 400
        sender = threading.Thread(target=lambda: [raw.request(READ, i * 8192, 5000 + i, 0, i)
                                                  for i in range(n)])
        sender.start()
        seen = {}
        for _ in range(n):
            if structured:
                cookie, flags, kind, body = raw.recv_chunk()
                expect_equal((flags, kind), (1, CHUNK_DATA), "a chunk")
                seen[cookie] = body[8:]
            else:
                cookie, = struct.unpack(">8xQ", raw.recv(16))
                seen[cookie] = raw.recv(5000 + cookie)
        sender.join()
        expect_equal(len(seen), n, "answers")
        for i, got in seen.items():
            expect_data(got, data[i * 8192:i * 8192 + 5000 + i], f"request {i}")
        server.stop()


def stream_of_writes(model):
    """(what goes over the wire, {cookie: error}): large payloads, what comes behind them, and one that is refused."""
    wire, expected, offset = bytearray(), {}, 0
    for i, length in enumerate((131072, 131072, 100, 32768, 32767, 300000, 1, 131072, 65536, None, 131072, 0, 99999)):
        command, at, payload = WRITE, offset, pattern(length or 0, i)
        if length is None:
            command = FLUSH
        elif i == 8:
            at = SIZE
        else:
            model[at:at + length] = payload
            offset += length
        wire += struct.pack(">IHHQQI", 0x25609513, 0, command, i, 0 if command == FLUSH else at, length or 0) + payload
        expected[i] = ENOSPC if at == SIZE else 0
    return bytes(wire), expected


def case_large_writes_in_a_stream(scratch):
    """However the stream is cut, at a header, within it or behind it, each payload goes to its place."""
    for n_piece in (1 << 30, 131072 + 28, 131072, 32768, 5000, 131072 + 27, 131072 + 29):
        server = Server(scratch, MAX_IO=262144)
        raw, model = server.go(), bytearray(2 * MIB)
        wire, expected = stream_of_writes(model)
        sender = threading.Thread(target=lambda: [raw.send(wire[at:at + n_piece])
                                                  for at in range(0, len(wire), n_piece)])
        sender.start()
        got = dict(raw.recv_simple()[:2] for _ in expected)
        sender.join()
        expect_equal(got, expected, f"answers, in pieces of {n_piece}")
        error, data = raw.call(READ, 0, len(model))
        expect_equal(error, 0, "read")
        expect_data(data, model, f"in pieces of {n_piece}")
        server.stop()


def case_no_flush(scratch):
    server = Server(scratch, NO_FLUSH=1)
    expect_equal(server.go().call(FLUSH)[0], 0, "a flush without a cache succeeds")
    server.stop()


run_cases([(name[5:].replace("_", " "), function)
           for name, function in list(globals().items()) if name.startswith("case_")])
