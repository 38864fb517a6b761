#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Other users of a host can do nothing to the processes of softrdma there. Abstract sockets
have no owner, so any user may send to them. SOFTRDMA_LIB names the library."""

import contextlib
import functools
import json
import os
import socket
import struct
import subprocess
import sys

import far
import forge
import local_user
from foreign import Failure, Skip, free_port, listens, need, run, wait_until
from test_roce_forged import Rig, listens_there, programs, sent_bytes, words

OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
MEMBERS = 32
STRANGERS = 16  # of one socket, at a time
SOCKETS = "inbox", "node", "cm"


def as_other(*arguments):
    if os.geteuid():
        raise Skip("only root can be two users")
    need("setpriv")
    done = subprocess.run([*OTHER, sys.executable, local_user.__file__, *arguments],
                          check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{arguments}: {done.stderr}")
    return done.stdout


@contextlib.contextmanager
def server(env=None):
    """One that goes on, with its port; no other process of softrdma runs."""
    need("rping")
    with programs() as every:
        port = free_port()
        every.append(far.here(words("rping -s -P -a ADDRESS -p PORT", port, far.HERE), env))
        wait_until(lambda: listens(port), "the server listens", every[0])
        yield every[0], port


def descriptors(program):
    return len(os.listdir(f"/proc/{program.process.pid}/fd"))


def connect(start, port):
    client = start(words("rping -c -a ADDRESS -p PORT -V -C 5", port, far.HERE))
    try:
        client.expect_success()
    finally:
        client.end()


def gives(kind):
    """It gives a process descriptors: all are closed."""
    with server() as (program, port):
        connect(Rig.other.program, port)
        before = descriptors(program)
        for name in local_user.names(kind):
            as_other("give", name, "300")
        wait_until(lambda: descriptors(program) <= before + STRANGERS, "all are closed", program)
        connect(Rig.other.program, port)
        wait_until(lambda: descriptors(program) <= before, "no connection is left", program)


def is_silent(kind):
    """It connects, and nothing more: the last few connections are kept, and the others end."""
    with server() as (program, port):
        before = descriptors(program)
        name = local_user.names(kind)[0]
        if os.geteuid():
            raise Skip("only root can be two users")
        with contextlib.ExitStack() as stack:
            os.setresuid(65534, 65534, 0)
            try:
                held = [stack.enter_context(local_user.packets(name)) for _ in range(100)]
                for each in held:
                    each.connect("\0" + name)
            finally:
                os.setresuid(0, 0, 0)
            wait_until(lambda: sum(is_over(each) for each in held) >= len(held) - STRANGERS, "most end", program)
            if (n := descriptors(program)) > before + STRANGERS:
                raise Failure(f"{n - before} connections of strangers are open")
            connect(far.here, port)


def is_over(connection):
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def own_silence_ends(kind):
    """A process of the same user that connects and says nothing: for a minute, or less where chaos
    shortens it."""
    with server({"SOFTRDMA_CHAOS": "cm-timeout=200"}) as (program, _):
        name = local_user.names(kind)[0]
        with local_user.packets(name) as silent:
            silent.connect("\0" + name)
            wait_until(lambda: is_over(silent), "it ends", program)


def introduces_itself():
    """Root can read the memory of any user's process; that gives the user no access to root's."""
    with server():
        for name in local_user.names("node"):
            if (said := as_other("hello", name).split()) != ["-1", "0"]:
                raise Failure(f"{name}: status {said[0]}, {said[1]} descriptors")


def has_the_names(names, expected):
    """It has taken the names that this user's processes need: they say so, and by which user."""
    if os.geteuid():
        raise Skip("only root can be two users")
    need("rping", "setpriv")
    with subprocess.Popen([*OTHER, sys.executable, local_user.__file__, "hold", *names], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as holder, programs() as every:
        if holder.stdout.readline() != f"{len(names)}\n":
            raise Failure("it does not have the names")
        every.append(far.here(words("rping -s -a ADDRESS -p PORT", free_port(), far.HERE)))
        wait_until(lambda: expected in every[0].said(), "it says so")
        holder.stdin.close()


def guid():
    """As softrdma makes it of far0's MAC."""
    links = subprocess.run(["ip", "-j", "link", "show", "far0"], check=True, capture_output=True)
    mac = bytearray.fromhex(json.loads(links.stdout)[0]["address"].replace(":", ""))
    mac[0] ^= 2
    return (mac[:3] + b"\xff\xfe" + mac[3:]).hex()


def asks_in_our_name(is_served):
    """It sends a peer ConnectRequests in the name of a queue pair of this host, or of each that it may
    have, as if they had new owners: the connections go on."""
    if os.geteuid():
        raise Skip("only root sees the packets")
    wire = forge.Wire("far0")
    with programs() as every:
        port = free_port()
        every.append(Rig.other.program(words("rping -s -P -a ADDRESS -p PORT -S 65000", port, far.THERE)))
        wait_until(lambda: listens_there(port), "the server listens", every[0])
        every.append(far.here(words("rping -c -a ADDRESS -p PORT -S 65000 -V -C 10000000", port, far.THERE)))
        qpn = struct.unpack_from("!I", wire.next_mad(forge.REQ, far.HERE), 24 + 32)[0] >> 8
        wait_for_data(every[1])
        if is_served:
            as_other("requests", far.HERE, far.THERE, str(port), guid(), str(qpn))
        else:
            as_other("requests", far.HERE, far.THERE, str(free_port()), guid())
        every.append(far.here(words("rping -c -a ADDRESS -p PORT -V -C 5", port, far.THERE)))
        every[2].expect_success()  # so the requests have been read
        wait_for_data(every[1])
        if "DISCONNECT" in (said := every[1].said()):
            raise Failure(said)


def wait_for_data(program):
    begin = sent_bytes()
    wait_until(lambda: sent_bytes() > begin + 2000000, "data flows", program)


def cases():
    for kind in SOCKETS:
        yield f"another user gives it descriptors: {kind}", functools.partial(gives, kind)
    for kind in SOCKETS[1:]:
        yield f"another user is silent: {kind}", functools.partial(is_silent, kind)
        yield f"the same user is silent: {kind}", functools.partial(own_silence_ends, kind)
    yield "another user introduces itself", introduces_itself
    yield "another user has all places", functools.partial(
        has_the_names, [f"softrdma.member.{i:x}" for i in range(MEMBERS)],
        f"of the {MEMBERS} places for processes of this host, other users (such as uid 65534) have {MEMBERS}")
    gid = (b"\0" * 10 + b"\xff\xff" + socket.inet_aton(far.HERE)).hex()
    yield "another user has the name of the address", functools.partial(
        has_the_names, [f"softrdma.roce.{gid}.{socket.if_nametoindex('far0'):x}"], "another user's softrdma has it")
    for is_served in True, False:
        yield f"another user asks in our name, {'a' if is_served else 'no'} port that is served", functools.partial(
            asks_in_our_name, is_served)


if __name__ == "__main__":
    far.enter()
    Rig.other = far.OtherHost()
    try:
        sys.exit(run(list(cases()), lanes=1))
    finally:
        Rig.other.end()
