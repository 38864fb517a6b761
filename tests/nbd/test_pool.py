#!/usr/bin/python3
"""Connections share workers and move between them, and no client can tell.

nbd_restless_server moves connections at each look, whether it pays or not; the default server has
one worker as long as one suffices.
"""

import json
import os
import random
import socket
import threading

from nbd_server import (BUILD, DISC, ESHUTDOWN, FLUSH, MIB, READ, WRITE, Server, expect,
                        expect_equal)
from harness import IS_SANITIZED, PATIENCE, expect_data, run_cases, wait_until
from test_rmw import contend

RESTLESS = os.path.join(BUILD, "tests", "nbd", "nbd_restless_server")
MOVES = 10 if IS_SANITIZED else 30


def restless(scratch, **environment):
    return Server(scratch, "--pool", "--control", scratch.file("c"), program=RESTLESS, **environment)


def status(scratch):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(scratch.file("c"))
        s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "status"}\n')
        with s.makefile() as f:
            return json.loads(f.readline())["result"]


def moves(scratch):
    return status(scratch)["connection_moves"]


def wait_for_moves(scratch, n, busy=None):
    """busy: the connections that make them move. A fault that one of them finds fails the case at once."""
    wanted = moves(scratch) + n

    def have_moved():
        if busy:
            busy.expect_well()
        return moves(scratch) >= wanted

    wait_until(have_moved, f"{n} connections have moved")


class Busy:
    """Connections that write and read their own blocks, some at a time, until they are stopped."""

    def __init__(self, server, n, depth=8, n_bytes=4096):
        self.must_stop = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self.run, args=(server.go(), i, depth, n_bytes))
                        for i in range(n)]
        for thread in self.threads:
            thread.start()

    def run(self, raw, i, depth, n_bytes):
        dice = random.Random(i)
        try:
            while not self.must_stop.is_set():
                self.round(raw, i, depth, n_bytes, dice)
        except Exception as error:  # shown by the main thread
            self.errors.append(error)
            self.must_stop.set()
        raw.close()

    @staticmethod
    def round(raw, i, depth, n_bytes, dice):
        at = [(i * depth + k) * n_bytes for k in range(depth)]
        written = {k: dice.randbytes(n_bytes) for k in range(depth)}
        for k in range(depth):
            raw.request(WRITE, at[k], n_bytes, cookie=k, payload=written[k])
        for _ in range(depth):
            expect_equal(raw.recv_simple()[1], 0, "error of a write")
        raw.request(FLUSH)
        expect_equal(raw.recv_simple()[1], 0, "error of a flush")
        for k in range(depth):
            raw.request(READ, at[k], n_bytes, cookie=k)
        for _ in range(depth):
            cookie, error, data = raw.recv_simple(n_bytes)
            expect_equal(error, 0, "error of a read")
            expect_data(data, written[cookie], f"block {cookie} of connection {i}")

    def stop(self):
        self.must_stop.set()
        for thread in self.threads:
            thread.join()
        self.expect_well()

    def expect_well(self):
        if self.errors:
            raise self.errors[0]


def case_one_worker_suffices(scratch):
    """Sixteen idle connections share one worker."""
    server = Server(scratch, "--pool", "--control", scratch.file("c"))
    clients = [server.go() for _ in range(16)]
    for i, raw in enumerate(clients):
        expect_equal(raw.call(WRITE, i * 4096, 4096, payload=bytes([i]) * 4096)[0], 0, "write")
    seen = status(scratch)
    expect_equal([worker["connections"] for worker in seen["workers"]], [16], "connections of workers")
    for i in range(16):
        expect_equal(clients[15 - i].call(READ, i * 4096, 4096), (0, bytes([i]) * 4096), "read")
    for i, raw in enumerate(clients):
        raw.disconnect() if i % 2 else raw.close()
        clients[i] = server.go()
        expect_equal(clients[i].call(READ, i * 4096, 4096), (0, bytes([i]) * 4096), "read again")
    server.stop()


def case_asked_for_queues_are_spread(scratch):
    server = Server(scratch, "--queues", "4", "--control", scratch.file("c"))
    clients = [server.go() for _ in range(6)]
    shares = sorted(worker["connections"] for worker in status(scratch)["workers"])
    expect_equal(shares, [1, 1, 2, 2], "connections of workers")
    for raw in clients:
        raw.disconnect()
    server.stop()


def case_nothing_is_lost_on_the_way(scratch):
    server = restless(scratch, DELAY_US=200)
    busy = Busy(server, 5)
    wait_for_moves(scratch, MOVES, busy)
    busy.stop()
    expect(len(status(scratch)["workers"]) > 1, "there are several workers")
    server.stop()


def case_large_requests_move_too(scratch):
    """Parts of a payload are under way when the connection is asked to leave; the slab is small."""
    server = restless(scratch, DELAY_US=200, MAX_IO=65536, SLAB=MIB)
    busy = Busy(server, 3, depth=2, n_bytes=300 * 1024)
    wait_for_moves(scratch, MOVES, busy)
    busy.stop()
    server.stop()


def case_slow_payload(scratch):
    """A connection in the middle of a payload stays where it is until the payload is complete."""
    server = restless(scratch)
    busy, raw = Busy(server, 2), server.go()
    payload = os.urandom(8192)
    for at in range(0, 8 * 8192, 8192):
        raw.request(WRITE, 32 * MIB + at, 8192, payload=payload[:5000])
        wait_for_moves(scratch, 2, busy)
        raw.send(payload[5000:])
        expect_equal(raw.recv_simple()[1], 0, "write")
        expect_equal(raw.call(READ, 32 * MIB + at, 8192), (0, payload), "read")
    busy.stop()
    server.stop()


def case_half_a_header(scratch):
    """Input that was received and not parsed goes along."""
    server = restless(scratch)
    busy, raw = Busy(server, 2), server.go()
    for i in range(8):
        raw.request(READ, i * 4096, 4096)
        raw.send(bytes.fromhex("25609513"))
        expect_equal(raw.recv_simple(4096)[1], 0, "read")
        wait_for_moves(scratch, 3, busy)
        raw.send(bytes.fromhex("00000003") + bytes(20))  # a flush
        expect_equal(raw.recv_simple()[1], 0, "flush")
    busy.stop()
    server.stop()


def case_range_locks(scratch):
    """Read-modify-writes of one block by all connections, which move."""
    def slices(i):
        return [(block * 4096 + i * 682, block * 4096 + (i + 1) * 682) for block in range(24)]
    contend(restless(scratch, DELAY_US=300), slices, 6, 8)


def case_clients_come_and_go(scratch):
    """Some die in the middle of their writes; later ones read what was written last."""
    server = restless(scratch, DELAY_US=500)
    busy = Busy(server, 3)
    at = 48 * MIB
    for i in range(MOVES):
        dies = server.go()
        for _ in range(8):
            dies.request(WRITE, at, 4096, payload=b"old!" * 1024)
        if i % 3 == 1:
            dies.request(DISC)
        if i % 3 == 2:
            dies.request(WRITE, at, 4096, payload=b"half")
        dies.close()
        lives = server.go()
        new = i.to_bytes(4, "big") * 1024
        expect_equal(lives.call(WRITE, at, 4096, payload=new)[0], 0, "write")
        for _ in range(4):
            expect_equal(lives.call(READ, at, 4096), (0, new), "what was written last")
        lives.close()
    busy.stop()
    server.stop()


def case_the_server_stops(scratch):
    """Connections that move get answers or a refusal, and the end."""
    for _ in range(4):
        server = restless(scratch, DELAY_US=300)
        clients = [server.go() for _ in range(6)]
        for raw in clients:
            for k in range(32):
                raw.request(WRITE, k * 4096, 4096, payload=bytes(4096))
        wait_for_moves(scratch, 2)
        server.process.terminate()
        for raw in clients:
            try:
                while True:
                    expect(raw.recv_simple()[1] in (0, ESHUTDOWN), "an answer or a refusal")
            except (EOFError, ConnectionError):
                raw.close()
        server.wait()


if __name__ == "__main__":
    run_cases([(name[5:], function) for name, function in list(globals().items()) if name.startswith("case_")])
