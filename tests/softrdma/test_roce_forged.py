#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A third host of the network can do nothing to two that use RoCE by forged ICMP. Data goes
on in packets of the size that was agreed upon, and connections are made. SOFTRDMA_LIB names the
library."""

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys

import far
from foreign import Failure, free_port, listens, need, run, wait_until
from stranger import Stranger, others

JUMBO = 9000
UDADDY_PORT = 7174


class Rig:
    """The three hosts, of which this process is on the attacked one."""
    other = None
    stranger = None


# ---- what the kernel counts


def counter(group, name):
    """A counter of this host: /proc/net/snmp, whose lines come in pairs, and /proc/net/snmp6."""
    with open("/proc/net/snmp", encoding="ascii") as f:
        lines = [line.split() for line in f]
    for names, values in zip(lines[::2], lines[1::2]):
        if names[0] == group + ":":
            return int(values[names.index(name)])
    with open("/proc/net/snmp6", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.split()[0] == group + name)


def icmp(address):
    return "Icmp6" if ":" in address else "Icmp"


def sent_bytes():
    with open("/proc/net/dev", encoding="ascii") as f:
        return next(int(line.split(":")[1].split()[8]) for line in f if "far0:" in line)


def fragments():
    return counter("Ip", "FragCreates") + counter("Ip6", "FragCreates")


def route(address):
    return subprocess.run(["ip", "route", "get", address], check=True, capture_output=True, text=True).stdout


def forged(address, messages, count=1):
    """From the stranger, about what this host has sent to the address; the kernel has read it."""
    own = far.HERE6 if ":" in address else far.HERE
    begin = counter(icmp(address), "InMsgs")
    Rig.stranger.send(own, messages, count, address)
    wait_until(lambda: counter(icmp(address), "InMsgs") >= begin + count, "the forged message is there")


# ---- programs


@contextlib.contextmanager
def programs():
    every = []
    try:
        yield every
    except Failure as e:
        raise Failure("\n".join([str(e), *(str(program) for program in every)])) from None
    finally:
        for program in every:
            program.end()


def words(line, port, address):
    return [word.replace("PORT", str(port)).replace("ADDRESS", address) for word in line.split()]


def listens_there(port):
    with open(f"/proc/{Rig.other.process.pid}/net/unix", encoding="utf-8", errors="replace") as f:
        return re.search(rf" 00010000 \S+ \S+ +\d+ @softrdma\.cm\.\w+\.{port}\.", f.read()) is not None


# ---- the path MTU


def too_big(address):
    """A route that the kernel takes for narrower, because a stranger said so, carries what its
    interface does: data goes on, a new connection is made, and no packet is cut into fragments."""
    need("rping")
    own = far.HERE6 if ":" in address else far.HERE
    Rig.other.set_mtu(JUMBO)
    cut = fragments()
    with programs() as every:
        port = free_port()
        every.append(far.here(words("rping -s -P -a ADDRESS -p PORT -S 65000", port, own)))
        wait_until(lambda: listens(port), "the server listens", every[0])
        line = "rping -c -a ADDRESS -p PORT -V -S 65000 -C "
        every.append(Rig.other.program(words(line + "10000000", port, own)))
        begin = sent_bytes()
        wait_until(lambda: sent_bytes() > begin + 5000000, "data flows", every[1])
        forged(address, "too-big")
        wait_until(lambda: re.search(r"mtu (576|1280)", route(address)), "the kernel believes it")
        begin = sent_bytes()
        wait_until(lambda: sent_bytes() > begin + 20000000, "data goes on", every[1])
        every.append(Rig.other.program(words(line + "20", port, own)))
        every[2].expect_success()
        if not re.search(r"mtu (576|1280)", route(address)):
            raise Failure("the kernel has forgotten it meanwhile")
    if fragments() != cut:
        raise Failure(f"{fragments() - cut} fragments were sent")


def mtu_of_a_route(address):
    """The MTU that the administrator gives a route does count: the two sides must agree on it."""
    need("rping")
    Rig.other.set_mtu(JUMBO)
    is_v6 = ":" in address
    narrow = [address + ("/128" if is_v6 else "/32"), "dev", "far0"]
    far.ip("route", "replace", *narrow, "mtu", *(["lock"] if is_v6 else []), "1500")
    try:
        with programs() as every:
            connect(every, far.here, Rig.other.program, far.HERE6 if is_v6 else far.HERE).expect_refusal()
            if "RDMA_CM_EVENT_REJECTED, error 26" not in every[1].said():
                raise Failure("not refused for the path MTU")
        with programs() as every:
            connect(every, Rig.other.program, far.here, address).expect_success()
    finally:
        far.ip("route", "del", *narrow)


def connect(every, serve, ask, address):
    """The client, of a server on the other side that listens."""
    port = free_port()
    every.append(serve(words("rping -s -P -a ADDRESS -p PORT", port, address)))
    wait_until(lambda: listens(port) or listens_there(port), "the server listens", every[0])
    every.append(ask(words("rping -c -a ADDRESS -p PORT -V -C 20", port, address)))
    return every[1]


# ---- connections


def port_unreachable(address, server, client, port):
    """The server is asked, but is late; meanwhile its port is said not to exist. Its answer counts."""
    need(server.split()[0])
    Rig.other.set_mtu(1500)
    udp = "Udp6" if ":" in address else "Udp"
    with programs() as every:
        every.append(Rig.other.program(words(server, port, address)))
        wait_until(lambda: listens_there(port), "the server listens", every[0])
        os.killpg(every[0].process.pid, signal.SIGSTOP)
        asked = counter(udp, "OutDatagrams")
        every.append(far.here(words(client, port, address)))
        wait_until(lambda: counter(udp, "OutDatagrams") > asked, "the request is sent", every[1])
        forged(address, "port-unreachable")
        os.killpg(every[0].process.pid, signal.SIGCONT)
        every[1].expect_success()


# ---- the sockets


def gid_index(start, address):
    program = start(["ibv_devinfo", "-v"])
    program.expect_success()
    prefix = "" if ":" in address else "::ffff:"
    return re.search(rf"GID\[ *(\d+)\]:\s*{prefix}{re.escape(address)}\b", program.said()).group(1)


def any_error(address):
    """Errors of packets that were never sent fail no packet of others: datagrams, which no side
    repeats, all arrive while such errors keep coming."""
    need("ibv_ud_pingpong", "ibv_devinfo")
    own = far.HERE6 if ":" in address else far.HERE
    Rig.other.set_mtu(1500)
    command = "ibv_ud_pingpong -e -n 3000 -s 512 -g".split()
    with programs() as every:
        every.append(far.here([*command, gid_index(far.here, own)]))
        wait_until(lambda: listens(18515), "the server listens", every[0])
        begin = counter(icmp(address), "InMsgs")
        storm = Rig.stranger.keep_sending(own, "host-unreachable,protocol-unreachable,time-exceeded", *others(address))
        try:
            wait_until(lambda: counter(icmp(address), "InMsgs") > begin + 1000, "errors come")
            every.append(Rig.other.program([*command, gid_index(Rig.other.program, address), far.HERE]))
            every[1].expect_success()
            every[0].expect_success()
        finally:
            storm.kill()
            storm.wait()


def cases():
    families = (("IPv4", far.THERE), ("IPv6", far.THERE6))
    for family, address in families:
        yield f"too big, says a stranger: {family}", functools.partial(too_big, address)
        yield f"a route's own MTU counts: {family}", functools.partial(mtu_of_a_route, address)
    for family, address in families:
        rping = "rping {} -a ADDRESS -p PORT -V -C 20"
        yield f"no such port, says a stranger: a connection, {family}", functools.partial(
            port_unreachable, address, rping.format("-s"), rping.format("-c"), free_port())
        udaddy = "udaddy" + (" -b ::" if ":" in address else "")
        yield f"no such port, says a stranger: datagrams, {family}", functools.partial(
            port_unreachable, address, udaddy, udaddy + " -s ADDRESS", UDADDY_PORT)
    for family, address in families:
        yield f"errors of all kinds, {family}", functools.partial(any_error, address)


def run_beside_a_stranger(cases):
    """Runs them on three hosts, and exits."""
    far.enter()
    Rig.other = far.OtherHost()
    Rig.stranger = Stranger(wait_until)
    try:
        sys.exit(run(list(cases), lanes=1))
    finally:
        Rig.stranger.end()
        Rig.other.end()


if __name__ == "__main__":
    run_beside_a_stranger(cases())
