#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A third host of the network floods hosts that serve by RoCE with requests in the names of others: hosts that ask in
earnest are served. SOFTRDMA_LIB names the library."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile

import far
import forge
from foreign import PATIENCE, Failure, Skip, free_port, listens, need, run, wait_until
from stranger import Stranger
from test_roce_cm import RBLK, RBLKD, UDADDY_PORT, configuration
from test_local_users import wait_for_data
from test_roce_forged import Rig, counter, listens_there, programs, run_beside_a_stranger, words

NVME_PORT = 4420
ROUNDS, PACKETS = 50, 64
RATE = 150
PENDING = 256  # rblkd's limit
QUESTIONS = 17000  # more than there ever was place for
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # __WALL: threads, too
EPOLL_WAITS = ("232", "281", "441")  # system calls of x86-64: epoll_wait, epoll_pwait, epoll_pwait2


@contextlib.contextmanager
def flood(port, rate):
    """Requests from here on, of hosts that there are not."""
    if os.geteuid():
        raise Skip("only root makes packets by hand")
    for link in "all", "far2":
        with open(f"/proc/sys/net/ipv4/conf/{link}/rp_filter", "w", encoding="ascii") as f:
            f.write("0")
    far.ip("route", "replace", "10.0.0.0/8", "via", Stranger.ADDRESSES["far3"][0])  # answers leave
    sender = subprocess.Popen([*Rig.stranger.enter, sys.executable, forge.__file__, "requests", far.HERE,
                               str(port), str(rate)])
    try:
        yield
    finally:
        sender.kill()
        sender.wait()


@contextlib.contextmanager
def target(every):
    with tempfile.TemporaryDirectory() as folder:
        every.append(far.here([RBLKD, "--config", configuration(folder)], {"RBLK_RUN_DIR": folder}))
        wait_until(lambda: "listening" in every[0].said(), "rblkd listens", every[0])
        yield every[0]


def discover(every):
    every.append(Rig.other.program([RBLK, "discover", far.HERE]))
    every[-1].expect_success()


def become_known(every):
    """A stranger has its place until 128 others have come, about a second: a machine that stands still for as long
    is too slow, and tries again. One that has been connected is known from then on."""

    def is_served():
        program = Rig.other.program([RBLK, "discover", far.HERE])
        every.append(program)
        return program.process.wait(PATIENCE) == 0

    wait_until(is_served, "a host that is not known is served")


def arrived(n):
    begin = counter("Udp", "InDatagrams")
    wait_until(lambda: counter("Udp", "InDatagrams") >= begin + n, "requests come")


@contextlib.contextmanager
def standing_still(thread):
    """That one alone, as on a machine that has no time for it; the others of its process go on. It stands still where
    it waits for events: elsewhere it may have a lock that the others need."""

    def is_held():
        if LIBC.ptrace(PTRACE_SEIZE, thread, None, None) or LIBC.ptrace(PTRACE_INTERRUPT, thread, None, None):
            raise Failure(f"ptrace: {os.strerror(ctypes.get_errno())}")
        os.waitpid(thread, WALL)
        with open(f"/proc/{thread}/syscall", encoding="ascii") as f:
            waits = f.read().split()[0] in EPOLL_WAITS
        if not waits:
            LIBC.ptrace(PTRACE_DETACH, thread, None, None)
        return waits

    wait_until(is_held, "the thread waits for events")
    try:
        yield
    finally:
        LIBC.ptrace(PTRACE_DETACH, thread, None, None)


def discover_behind(server, every):
    """The control thread does not come to take requests, while there are more than a listener has places for, and one of
    a known host behind them."""
    with standing_still(server.process.pid):
        arrived(2 * PENDING)
        every.append(Rig.other.program([RBLK, "discover", far.HERE]))
        arrived(PENDING)
    every[-1].expect_success()


def many_requests():
    """More than a server has places for, each of which lasts for seconds."""
    with programs() as every, target(every) as server:
        with flood(NVME_PORT, RATE):
            arrived(2 * PENDING)
            become_known(every)
            for _ in range(6):
                discover(every)
            discover_behind(server, every)
        server.process.send_signal(signal.SIGTERM)
        server.expect_success()


def many_questions():
    """Service id resolutions for a port that no program serves: each has its answer, however many
    there have been, because none is remembered."""
    if os.geteuid():
        raise Skip("only root makes packets by hand")
    with programs() as every, target(every):
        ask(free_port(), QUESTIONS)
        discover(every)


def ask(port, count):
    done = subprocess.run([*Rig.stranger.enter, sys.executable, forge.__file__, "ask", Stranger.ADDRESSES["far3"][0],
                           far.HERE, str(port), str(count)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failure(done.stderr)


def questions_for_a_program():
    """More than it has places for, whose answers are kept for the last ones: each has its answer."""
    need("udaddy")
    with programs() as every:
        every.append(far.here(["udaddy", "-c", "2000"]))
        wait_until(lambda: listens(UDADDY_PORT), "the server listens", every[0])
        ask(UDADDY_PORT, 1920)


def numbers_of(packet):
    """The queue pair and the number of a packet."""
    return int.from_bytes(packet[5:8], "big"), int.from_bytes(packet[9:12], "big")


def naks(out, wire, qpn, port):
    """To the queue pair of the other host, in this one's name, with numbers that are under way."""
    number = numbers_of(wire.next_of(forge.WRITE_FIRST, far.THERE))[1]
    for i in range(PACKETS):
        out.send(far.HERE, far.THERE, forge.nak(qpn, number + i & 0xffffff), port)


def ends(programs_of_it, attack):
    with contextlib.suppress(Failure):
        attack()
    return any("DISCONNECT" in program.said() or program.process.poll() is not None for program in programs_of_it)


def another_port():
    """NAKs in this host's name, to the queue pair and with the numbers that are under way, but from
    another UDP port, that of RoCE too: the connection goes on. Those from the port that is not told
    to strangers end it."""
    need("rping")
    if os.geteuid():
        raise Skip("only root sees the packets")
    out, wire = forge.RawSocket(), forge.Wire("far0")
    with programs() as every:
        port = free_port()
        every.append(Rig.other.program(words("rping -s -P -a ADDRESS -p PORT -S 65000", port, far.THERE)))
        wait_until(lambda: listens_there(port), "the server listens", every[0])
        every.append(far.here(words("rping -c -a ADDRESS -p PORT -S 65000 -V -C 10000000", port, far.THERE)))
        qpn = numbers_of(wire.next_of(forge.ACK, far.HERE))[0]
        secret = wire.source_port
        for i in range(ROUNDS):
            naks(out, wire, qpn, forge.PORT if i % 2 else secret ^ 1)
        wait_for_data(every[1])
        if "DISCONNECT" in (said := every[1].said()):
            raise Failure(said)
        wire.socket.settimeout(1)  # once the connection has ended, nothing comes
        wait_until(lambda: ends(every, lambda: naks(out, wire, qpn, secret)), "those from the right port end it")


def cases():
    yield "requests in many names", many_requests
    yield "questions without number", many_questions
    yield "questions for a program", questions_for_a_program
    yield "NAKs from another port", another_port


if __name__ == "__main__":
    run_beside_a_stranger(cases())
