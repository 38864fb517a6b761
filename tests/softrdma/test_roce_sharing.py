#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several processes share one address and its UDP port 4791, each on both hosts: data and
connections reach the right one, a death disturbs no other, and its place is free again.
SOFTRDMA_LIB names the library; --unprivileged: without root's rights."""

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys

import far
from foreign import Failure, Program, free_port, listens, need, run, softrdma, wait_until

MEMBERS = 32  # ROCE_MEMBERS
PAIRS = ("rping -s -a HERE -p PORT -V -C 300 -v -S 3000", "rping -c -a HERE -p PORT -V -C 300 -v -S 3000")
# what ends only when it is killed; perftest with -R resolves no IPv6 address
ENDLESS = ("ib_write_bw -R -F -D 600 -p PORT", "ib_write_bw -R -F -D 600 -p PORT HERE")
ENDLESS6 = tuple(line.replace("-C 300 -v", "") for line in PAIRS)


class Rig:
    other = None


def words(line, port, address):
    return [w.replace("PORT", str(port)).replace("HERE", address) for w in line.split()]


@contextlib.contextmanager
def programs():
    """A list; what it holds in the end is killed."""
    every = []
    try:
        yield every
    finally:
        for program in every:
            program.end()


def start(every, server, client, address):
    """A server here, a client there."""
    port = free_port()
    every.append(far.here(words(server, port, address)))
    wait_until(lambda: listens(port), "the server listens", every[-1])
    every.append(Rig.other.program(words(client, port, address)))
    return every[-2:]


def succeed(pair):
    try:
        for program in reversed(pair):
            program.expect_success()
    except Failure as e:
        raise Failure(f"{e}\nserver: {pair[0]}\nclient: {pair[1]}") from None


def received():
    with open("/proc/net/dev", encoding="ascii") as f:
        return next(int(line.split(":")[1].split()[1]) for line in f if "far0:" in line)


def sockets(address):
    """How many sockets of port 4791 the address has: one set, however many processes share it."""
    if ":" in address:
        return None
    with open("/proc/net/udp", encoding="ascii") as f:
        wanted = "".join(f"{int(byte):02X}" for byte in reversed(address.split("."))) + ":12B7"
        return sum(line.split()[1] == wanted for line in f if ":" in line)


def together(mtu, address):
    """Three processes here and three there, under load at once; one exchanges the numbers of its
    queue pairs by itself."""
    need("rping", "ib_send_bw", "ib_read_bw")
    Rig.other.set_mtu(mtu)
    with programs() as every:
        bandwidth = "ib_send_bw -R -F -n 3000 -p PORT"
        pairs = [start(every, *PAIRS, address),
                 start(every, *(PAIRS if ":" in address else (bandwidth, bandwidth + " HERE")), address),
                 start(every, "ib_read_bw -F -n 1000 -u 18 -x 0 -p PORT",
                       f"ib_read_bw -F -n 1000 -u 18 -x 0 -p PORT {far.HERE}", address)]
        for pair in pairs:
            succeed(pair)


def killed(mtu, address, which):
    """SIGKILL of one of three under load: its peer fails, the others go on with right data, and
    one more begins."""
    need("rping", "ib_write_bw")
    Rig.other.set_mtu(mtu)
    with programs() as every:
        pairs = [None, None, None]
        # the first alone, for a client that still asks for a connection ends in another way
        pairs[which] = start(every, *(ENDLESS6 if ":" in address else ENDLESS), address)
        begin = received()
        wait_until(lambda: received() > begin + 3000, "data flows", pairs[which][1])
        for i in {0, 1, 2} - {which}:
            pairs[i] = start(every, *PAIRS, address)
            wait_until(lambda client=pairs[i][1]: "rdma-ping" in client.said(), "data flows", pairs[i][1])
        os.killpg(pairs[which][0].process.pid, signal.SIGKILL)
        later = start(every, *PAIRS, address)
        for pair in [*pairs[:which], *pairs[which + 1:], later]:
            succeed(pair)
        if not which:  # once, for it takes all the retries
            pairs[which][1].expect_refusal()


def successor():
    """A process follows another one on the same port again and again, and is never taken for it."""
    need("rping")
    endless = [line.replace("-C 300", "-C 100000") for line in PAIRS]
    Rig.other.set_mtu(1500)
    with programs() as every:
        start(every, *endless, far.HERE)
        port = free_port()
        for _ in range(3):
            server = far.here(words(endless[0], port, far.HERE))
            every.append(server)
            wait_until(lambda: listens(port), "the server listens", server)
            client = Rig.other.program(words(endless[1], port, far.HERE))
            every.append(client)
            # it is connected: one that still asks for a connection would ask the next server for it
            wait_until(lambda: "rdma-ping" in client.said(), "data flows", client)
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            server = far.here(words(PAIRS[0], port, far.HERE))
            every.append(server)
            wait_until(lambda: listens(port), "the next server listens", server)
            client = Rig.other.program(words(PAIRS[1], port, far.HERE))
            every.append(client)
            succeed((server, client))


def full_house():
    """32 processes share an address, in one set of sockets; one more is told so; the place of one
    that is killed is free."""
    need("rping")
    Rig.other.set_mtu(1500)
    with programs() as every:
        ports = [free_port() for _ in range(MEMBERS)]
        for port in ports:
            every.append(far.here(words("rping -s -a HERE -p PORT", port, far.HERE)))
        for port, program in zip(ports, every):
            wait_until(lambda: listens(port), "a server listens", program)
        if (n := sockets(far.HERE)) != MEMBERS + 1:
            raise Failure(f"{n} sockets")
        one_more = far.here(words("rping -s -a HERE -p PORT", free_port(), far.HERE))
        every.append(one_more)
        wait_until(lambda: "32 processes use RoCE on this host" in one_more.said(), "it is told", None)
        one_more.end()
        for victim in every[0], every[MEMBERS // 2]:
            os.killpg(victim.process.pid, signal.SIGKILL)
            victim.process.wait()
            succeed(start(every, *PAIRS, far.HERE)[:2])
        # and those that were there all the time
        client = Rig.other.program(words("rping -c -a HERE -p PORT -C 5 -V", ports[1], far.HERE))
        every.append(client)
        client.expect_success()


def no_listener():
    """One of several processes rejects what is for none of them."""
    need("rping", "ucmatose")
    with programs() as every:
        for _ in range(3):
            port = free_port()
            every.append(far.here(words("rping -s -P -a HERE -p PORT", port, far.HERE)))
            wait_until(lambda: listens(port), "a server listens", every[-1])
        for _ in range(4):
            client = Rig.other.program(words("ucmatose -s HERE -p PORT", free_port(), far.HERE))
            every.append(client)
            client.expect_refusal()
            if "RDMA_CM_EVENT_REJECTED, error: 8" not in client.said():
                raise Failure(str(client))


def unreachable(address):
    """"Port unreachable" reaches the process that asked, whichever socket the kernel gives it to."""
    need("rping", "ucmatose")
    with programs() as every:
        for _ in range(2):
            port = free_port()
            every.append(Rig.other.program(words("rping -s -P -p PORT -a " + far.THERE, port, far.THERE)))
        wait_until(lambda: all(re.search(r"4791", inside()) for _ in every), "they are there", every[0])
        client = Rig.other.program(words("ucmatose -s HERE -p PORT", free_port(), address))
        every.append(client)
        client.expect_refusal()
        if "RDMA_CM_EVENT_UNREACHABLE, error: -111" not in client.said():
            raise Failure(str(client))


def inside():
    return subprocess.run([*Rig.other.enter, "ss", "-Hnlu"], check=True, capture_output=True, text=True).stdout


def another_user():
    """Another user's process is told whose the port is."""
    need("rping", "setpriv")
    with programs() as every:
        port = free_port()
        every.append(far.here(words("rping -s -a HERE -p PORT", port, far.HERE)))
        wait_until(lambda: listens(port), "a server listens", every[0])
        every.append(Program(words("rping -s -a HERE -p PORT", free_port(), far.HERE),
                             ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *softrdma()],
                             dict(far.ROCE)))
        wait_until(lambda: "another user's softrdma has it" in every[1].said(), "it is told", None)


def cases():
    for mtu in 1500, 9000:
        for family, address in ("IPv4", far.HERE), ("IPv6", far.HERE6):
            yield f"three at once, MTU {mtu}, {family}", functools.partial(together, mtu, address)
    for mtu, address, which in (1500, far.HERE, 0), (9000, far.HERE, 1), (9000, far.HERE6, 2):
        yield (f"kill -9 of number {which + 1} of three, MTU {mtu}, {'IPv6' if ':' in address else 'IPv4'}",
               functools.partial(killed, mtu, address, which))
    yield "successors on one port", successor
    yield "32 processes", full_house
    yield "no program listens: rejected", no_listener
    yield "no RoCE there: unreachable, IPv4", functools.partial(unreachable, far.HERE)
    yield "no RoCE there: unreachable, IPv6", functools.partial(unreachable, far.HERE6)
    yield "another user", another_user


# what rights could make a difference to: the shared port, and a place that is free again
WITHOUT_RIGHTS = ("three at once, MTU 1500, IPv4", "three at once, MTU 9000, IPv6", "32 processes",
                  "kill -9 of number 2 of three, MTU 9000, IPv4", "no RoCE there: unreachable, IPv6")


if __name__ == "__main__":
    far.enter("--unprivileged" in sys.argv)
    Rig.other = far.OtherHost()
    try:
        sys.exit(run(far.permitted(cases(), WITHOUT_RIGHTS), lanes=1))
    finally:
        Rig.other.end()
