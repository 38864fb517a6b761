#!/usr/bin/python3
"""Clients that send garbage, stall, do not read, die, or are too many: the others are not
affected."""

import os
import random
import resource
import socket
import struct
import threading
import time

from nbd_server import (ABORT, ACK, ESHUTDOWN, FLUSH, GO, IHAVEOPT, LIST, MIB, POLICY, READ, WRITE,
                        WRITE_ZEROES, Raw, Server, expect, expect_equal, go_data, pattern)
from harness import IS_SANITIZED, PATIENCE, expect_data, run_cases, wait_until, waits

STANDING_S = float(os.environ.get("RBLK_STANDING_S", "0"))  # of clients that stand still
STANDING_CLIENTS = "36"  # twice those of a round: the server may not have cleaned up after the one before
STANDING_SEED = int(os.environ.get("RBLK_STANDING_SEED", "35"))


def rss_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def n_fds(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def n_sockets(server):
    """Descriptors of clients and of the listener; workers have descriptors of their own."""
    n = 0
    for entry in os.scandir(f"/proc/{server.process.pid}/fd"):
        try:
            n += os.readlink(entry.path).startswith("socket:")
        except FileNotFoundError:
            pass  # closed meanwhile
    return n


def check_alive(server, what):
    raw = server.go()
    expect_equal(raw.call(WRITE, 0, 5000, payload=bytes(5000))[0], 0, f"{what}: write")
    expect_equal(raw.call(READ, 0, 5000)[0], 0, f"{what}: read")
    raw.disconnect()


def case_garbage_in_handshake(scratch):
    server = Server(scratch)
    rng = random.Random(1)
    for i in range(300):
        s = server.connect()
        data = rng.randbytes(rng.choice((1, 4, 20, 100, 70000)))
        if i % 3:
            data = struct.pack(">I", 3) + data
        if i % 3 == 2:
            data = struct.pack(">IQII", 3, IHAVEOPT, rng.randrange(12), rng.randrange(200)) + data
        try:
            s.sendall(data)
            if i % 2:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        except ConnectionError:
            pass
        s.close()
    check_alive(server, "after garbage")
    wait_until(lambda: n_fds(server) < 30, "no file descriptor leaks")
    server.stop()


def case_garbage_in_transmission(scratch):
    server = Server(scratch)
    rng = random.Random(2)
    for i in range(200):
        raw = server.go(structured=i % 2)
        try:
            for _ in range(20):
                raw.request(rng.randrange(12), rng.choice((0, 1, 4096, 2**64 - 1, rng.getrandbits(64))),
                            rng.choice((0, 1, 4096, 2**32 - 1)), rng.choice((0, 1, rng.getrandbits(16))),
                            rng.getrandbits(64))
            raw.send(rng.randbytes(rng.randrange(1, 50000)))
        except ConnectionError:
            pass
        raw.close()
    raw = server.go()
    raw.request(READ, 0, 512, magic=0x25609514)
    raw.expect_closed()
    check_alive(server, "after garbage")
    server.stop()


def case_killed_everywhere(scratch):
    """The conversation truncated after every possible byte."""
    server = Server(scratch, DELAY_US=500)
    options = struct.pack(">IQII", 3, IHAVEOPT, LIST, 0) + struct.pack(">QII", IHAVEOPT, GO, 6) + go_data()
    write = struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 1, 100, 5000) + pattern(5000, 1)
    read = struct.pack(">IHHQQI", 0x25609513, 0, READ, 2, 0, MIB)
    script = options + read + write + read + write
    steps = list(range(1, len(options) + 90)) + list(range(len(options) + 90, len(script), 997))
    for n in steps:
        s = server.connect()
        s.sendall(script[:n])
        if n % 3 == 0:
            s.shutdown(socket.SHUT_WR)
        s.close()
    wait_until(lambda: n_fds(server) < 30, "no file descriptor leaks")
    check_alive(server, "after the cuts")
    server.stop()


def case_half_written_payload_changes_nothing(scratch):
    """Up to the largest I/O, in whole blocks, a write happens as a whole or not at all."""
    server = Server(scratch)
    raw = server.go()
    data = pattern(MIB, 7)
    expect_equal(raw.call(WRITE, 0, MIB, payload=data)[0], 0, "write")
    n_before = n_sockets(server)
    for length in (1, 4096, 65536, MIB):
        dying = server.go()
        dying.request(WRITE, 0, length, payload=bytes(length - 1))
        dying.close()
    wait_until(lambda: n_sockets(server) == n_before, "the server has heard of their end")
    error, got = raw.call(READ, 0, MIB)
    expect_equal(error, 0, "read")
    expect_data(got, data, "beside a write whose payload never came")
    server.stop()


def case_answers_after_half_close(scratch):
    """A client that sends its requests, closes its sending side and then reads gets all answers."""
    server = Server(scratch, DELAY_US=2000)
    raw = server.go()
    for i in range(50):
        raw.request(WRITE, i * 4096, 4096, 0, i, bytes([i]) * 4096)
    raw.sock.shutdown(socket.SHUT_WR)
    cookies = {raw.recv_simple()[0] for _ in range(50)}
    expect_equal(len(cookies), 50, "answers")
    raw.expect_closed()
    raw = server.go()
    _, got = raw.call(READ, 0, 50 * 4096)
    expect_data(got, b"".join(bytes([i]) * 4096 for i in range(50)), "what was acknowledged")
    server.stop()


def case_disc_with_writes_in_flight(scratch):
    server = Server(scratch, DELAY_US=5000)
    raw = server.go()
    for i in range(20):
        raw.request(WRITE, i * 4096, 4096, 0, i, bytes([i + 1]) * 4096)
    raw.request(2)
    for _ in range(20):
        expect_equal(raw.recv_simple()[1], 0, "error")
    raw.expect_closed()
    server.stop()


def case_slow_reader(scratch):
    """A client that requests much and reads nothing: memory is bounded, and other clients are
    served, even those on the same queue."""
    server = Server(scratch, QUEUES=1, SLAB=4 * MIB, MAX_IO=MIB)
    check_alive(server, "before")
    slow = server.go()
    slow.sock.settimeout(0.5)
    before = rss_kib(server)
    try:
        for i in range(100000):
            slow.request(READ, 0, MIB, 0, i)
    except TimeoutError:
        pass
    for _ in range(20):
        check_alive(server, "beside a client that does not read")
    grown = rss_kib(server) - before
    expect(grown < (200 if IS_SANITIZED else 20) * 1024, f"grown by {grown} KiB")
    slow.sock.settimeout(PATIENCE)
    for _ in range(40):
        expect_equal(slow.recv_simple(MIB)[1], 0, "it can still read its answers")
    slow.close()
    check_alive(server, "after")
    server.stop()


def ask_until_it_blocks(raw, length, n):
    """Up to n reads, none of whose answers is read."""
    raw.sock.setblocking(False)
    try:
        for i in range(n):
            raw.request(READ, 0, length, 0, i)
    except BlockingIOError:
        pass


def stop_somewhere(server, rng, kind):
    """A client that stands still from now on: it has asked for kind bytes at a time and reads
    nothing, or reads a little; or has sent a part of a payload."""
    raw = server.go(structured=rng.random() < 0.5)
    if kind == "write":
        length = rng.choice((4096, MIB, 32 * MIB))
        raw.sock.setblocking(False)
        try:
            raw.request(WRITE, 0, length, payload=bytes(rng.randrange(length)))
        except BlockingIOError:
            pass
        return raw
    ask_until_it_blocks(raw, kind, 64)
    if rng.random() < 0.5:
        try:
            raw.sock.recv(rng.randrange(1, 3 * MIB))
        except BlockingIOError:
            pass
    return raw


def answer_seconds(raw):
    begin = time.monotonic()
    expect_equal(raw.call(READ, 0, 4096)[0], 0, "a 4 KiB read beside clients that stand still")
    return time.monotonic() - begin


def stand_still_beside(server, rng, n):
    """n clients stop, one after the other or all at once; one that was there before and a new one
    are served. Returns how long the slowest answer took."""
    older = server.go()
    stopped, longest, at_once = [], 0, rng.random() < 0.5
    for _ in range(n):
        stopped.append(stop_somewhere(server, rng, rng.choice((MIB, 32 * MIB, "write"))))
        if not at_once:
            longest = max(longest, answer_seconds(older))
    newer = server.go()
    longest = max(longest, answer_seconds(older), answer_seconds(newer))
    expect_equal(newer.call(WRITE, 0, MIB, payload=bytes(MIB))[0], 0, "write")
    expect_equal(newer.call(FLUSH)[0], 0, "flush")
    for raw in (older, newer, *stopped):
        raw.close()
    return longest


def case_clients_that_stand_still(scratch):
    """Any number of clients that take no replies, or stop in the middle of a payload, keep nothing
    from the others."""
    rng = random.Random(STANDING_SEED)
    for max_io in (MIB, 8 * MIB):
        server = Server(scratch, "--max-connections", STANDING_CLIENTS, QUEUES=1, SLAB=32 * MIB, MAX_IO=max_io)
        for n in (1, 2, 5, 16):
            stand_still_beside(server, rng, n)
        expect("copied out" in server.read_log(), "the log names the clients")
        server.stop()


def case_a_storm_of_them(scratch):
    """RBLK_STANDING_S seconds of it: no answer takes more than 5."""
    rng = random.Random(STANDING_SEED)
    deadline = time.monotonic() + STANDING_S
    rounds, longest = 0, 0
    while time.monotonic() < deadline:
        server = Server(scratch, "--max-connections", STANDING_CLIENTS, QUEUES=rng.choice((1, 4)), SLAB=32 * MIB,
                        MAX_IO=rng.choice((MIB, 8 * MIB)))
        for _ in range(10):
            longest = max(longest, stand_still_beside(server, rng, rng.randrange(1, 17)))
            rounds += 1
        server.stop()
    print(f"# {rounds} rounds, the slowest answer took {longest:.2f} s")
    expect(longest < 5, f"an answer took {longest:.2f} s")


def case_a_stopped_client_goes_on(scratch):
    """Its replies, and its half payload, were copied out for another meanwhile. Nothing is lost."""
    server = Server(scratch, QUEUES=1, SLAB=8 * MIB, MAX_IO=2 * MIB)
    data = pattern(2 * MIB, 35)
    first = server.go()
    expect_equal(first.call(WRITE, 0, 2 * MIB, payload=data)[0], 0, "write")
    readers = [server.go(structured=i % 2) for i in range(3)]
    for raw in readers:
        ask_until_it_blocks(raw, 2 * MIB, 4)
    writers = [server.go() for _ in range(3)]
    for i, raw in enumerate(writers):
        raw.request(WRITE, (i + 1) * 2 * MIB, 2 * MIB, payload=data[:MIB + i])
    wait_until(lambda: server.go().call(READ, 0, 2 * MIB)[0] == 0 and
               "takes no replies" in server.read_log() and
               "in the middle of a write" in server.read_log(), "both kinds are copied out")
    for i, raw in enumerate(writers):
        raw.send(data[MIB + i:])
        expect_equal(raw.recv_simple()[1], 0, "the write at last")
        expect_data(first.call(READ, (i + 1) * 2 * MIB, 2 * MIB)[1], data, "what was written")
    for raw in readers:
        raw.sock.settimeout(PATIENCE)
        for _ in range(4):
            got = raw.recv_read(0, 2 * MIB)[0] if raw.is_structured else raw.recv_simple(2 * MIB)[2]
            expect_data(got, data, "what waited")
    server.stop()


def case_slow_writer(scratch):
    """Clients that stop in the middle of a payload hold one part each, and no lock."""
    server = Server(scratch, QUEUES=1, SLAB=8 * MIB, MAX_IO=MIB)
    slow = [server.go() for _ in range(5)]
    for raw in slow:
        raw.request(WRITE, 0, MIB, payload=bytes(MIB // 2))
    for _ in range(20):
        check_alive(server, "beside stalled writers")
    for raw in slow:
        raw.send(bytes(MIB // 2))
        expect_equal(raw.recv_simple()[1], 0, "the write at last")
    server.stop()


def case_scarce_memory(scratch):
    """A slab of two buffers, many clients with large requests: slow, but no client starves."""
    server = Server(scratch, QUEUES=2, SLAB=512 << 10, MAX_IO=256 << 10, DELAY_US=200)
    errors = []

    def client(seed):
        try:
            raw = server.go(structured=seed % 2)
            data = pattern(3 * MIB, seed)
            for _ in range(4):
                expect_equal(raw.call(WRITE, seed * 4 * MIB + seed, len(data), payload=data)[0], 0, "write")
                error, got = raw.call(READ, seed * 4 * MIB + seed, len(data))
                expect_equal(error, 0, "read")
                expect_data(got, data, f"of client {seed}")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    server.stop()


def case_too_many_connections(scratch):
    server = Server(scratch, "--max-connections", "4")
    clients = [server.go() for _ in range(4)]
    raw = Raw(server.connect()).greet()
    expect_equal(raw.option(GO, go_data())[-1][0], POLICY, "the fifth GO")
    clients.pop().disconnect()
    wait_until(lambda: raw.option(GO, go_data())[-1][0] == ACK, "a place becomes free")
    # half-open ones are bounded too
    n_before = n_fds(server)
    idle = [server.connect() for _ in range(60)]
    wait_until(lambda: "the next has to wait" in server.read_log(), "half-open connections are bounded")
    expect(n_fds(server) < n_before + 20, f"{n_fds(server)} file descriptors, {n_before} before")
    for s in idle:
        s.close()
    wait_until(lambda: n_fds(server) <= n_before, "they are gone")
    server.stop()


def case_a_crowd_waits_for_its_turn(scratch):
    """More clients at a time than there are places: each is served, none is refused."""
    server = Server(scratch, "--max-connections", "4")
    crowd = [Raw(server.connect()) for _ in range(60)]
    for raw in crowd:
        expect_equal(raw.greet().option(ABORT), [(ACK, b"")], "the answer to ABORT")
        raw.close()
    check_alive(server, "after the crowd")
    server.stop()


@waits
def case_handshake_deadline(scratch):
    server = Server(scratch)
    start = time.monotonic()
    raw = Raw(server.connect()).greet()
    raw.expect_closed()
    expect(8 < time.monotonic() - start < PATIENCE, f"closed after {time.monotonic() - start:.1f} s")
    server.stop()


def case_stop_with_idle_clients(scratch):
    server = Server(scratch, "--debug")
    clients = [server.go() for _ in range(6)]
    half = Raw(server.connect()).greet()
    server.stop()
    log = server.read_log()
    expect_equal(log.count("hanging up: the server is shutting down"), 1, "clients in their handshake")
    expect("does not take its replies" not in log, "idle clients were waited for:\n" + log)
    for raw in clients + [half]:
        raw.expect_closed()
    expect(not os.path.exists(server.path), "the socket file is gone")


def case_stop_answers_in_flight(scratch):
    server = Server(scratch, DELAY_US=300000)
    raw = server.go()
    for i in range(40):
        raw.request(WRITE, i * 4096, 4096, 0, i, bytes(4096))
    time.sleep(0.05)
    stopper = threading.Thread(target=server.process.terminate)
    stopper.start()
    answers = {}
    try:
        for i in range(40):
            cookie, error, _ = raw.recv_simple()
            answers[cookie] = error
    except EOFError:
        pass
    expect_equal(len(answers), 40, "answers")
    expect(set(answers.values()) <= {0, ESHUTDOWN}, f"errors {set(answers.values())}")
    server.wait()


def answers_while_it_stops(scratch):
    """The answers {cookie: error} to 20 requests that take 1.7 s, and to 10 sent after SIGTERM;
    None if this machine was too slow to send those while the others were in flight. The server
    has 2 s for all of it."""
    server = Server(scratch, DELAY_US=1700000)
    raw = server.go()
    start = time.monotonic()
    for i in range(20):
        raw.request(FLUSH if i % 2 else WRITE_ZEROES, 0, 0 if i % 2 else 4096, 0, i)
    time.sleep(0.1)
    server.process.terminate()
    wait_until(lambda: not os.path.exists(server.path), "the server stops")
    time.sleep(0.1)  # until its workers have received the stop
    answers = {}
    try:
        for i in range(20, 30):
            raw.request(READ, 0, 4096, 0, i)
        sent = time.monotonic()
        while True:
            cookie, error, _ = raw.recv_simple()
            answers[cookie] = error
    except (EOFError, ConnectionError):
        pass
    server.wait()
    return answers if sent - start < 0.7 else None


def case_stop_refuses_new_requests(scratch):
    answers = wait_until(lambda: answers_while_it_stops(scratch), "a moment without much load")
    expect(all(answers.get(i) == 0 for i in range(20)), f"in flight: {answers}")
    expect(all(answers.get(i) == ESHUTDOWN for i in range(20, 30)), f"new ones: {answers}")


def case_stop_with_stalled_clients(scratch):
    """Neither a client in the middle of a payload nor one that does not read can delay the end."""
    server = Server(scratch)
    stalled = server.go()
    stalled.request(WRITE, 0, MIB, payload=bytes(1000))
    deaf = server.go()
    deaf.sock.settimeout(0.5)
    try:
        for i in range(1000):
            deaf.request(READ, 0, MIB, 0, i)
    except TimeoutError:
        pass
    server.stop()


@waits
def case_stop_while_target_is_away(scratch):
    """The volume never completes its I/O: the process logs that and ends."""
    server = Server(scratch, HOLD=1)
    server.go().request(READ, 0, 4096)
    time.sleep(0.1)
    server.process.terminate()
    expect_equal(server.process.wait(PATIENCE), 7, "exit status")
    expect("the target did not answer" in server.read_log(), server.read_log())


def case_grown_volume(scratch):
    server = Server(scratch, SIZE=8 * MIB, GROW_TO=16 * MIB)
    raw = server.go()
    expect_equal(raw.call(READ, 8 * MIB, 4096)[0], 22, "before")
    os.kill(server.process.pid, 10)
    wait_until(lambda: raw.call(READ, 8 * MIB, 4096)[0] == 0, "the connected client may read more")
    expect_equal(server.go().size, 16 * MIB, "size for new clients")
    server.stop()


def case_few_file_descriptors(scratch):
    """Accepting fails for lack of file descriptors, and resumes later."""
    server = Server(scratch)
    check_alive(server, "before")
    pid = server.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (n_fds(server) + 2, limits[1]))
    clients = [server.go() for _ in range(2)]
    waiting = server.connect()
    time.sleep(0.3)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    Raw(waiting).go()
    expect_equal(clients[0].call(READ, 0, 512)[0], 0, "the others work")
    server.stop()


run_cases([(name[5:].replace("_", " "), function) for name, function in list(globals().items())
           if name.startswith("case_") and (STANDING_S or function is not case_a_storm_of_them)])
