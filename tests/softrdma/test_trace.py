#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""softrdma --trace, read by other programs: Wireshark's dissectors find verbs, connections and
NVMe capsules and nothing malformed, and every ICRC is right (computed here by zlib). Sources:
the pcapng draft, IBA volume 1 and its annexes A16 and A17 (RoCE), NVMe over Fabrics."""

import collections
import functools
import os
import struct
import subprocess
import sys
import tempfile
import zlib

from foreign import (Failure, HERE, Program, both, enter_own_network, free_port, listens, need, run, softrdma,
                     wait_until)

RBLKD = os.environ["RBLKD"]
RBLK = os.environ["RBLK"]
NQN = "nqn.2026-01.org.example:trace"
Packet = collections.namedtuple("Packet", "data length")


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- reading a trace without Wireshark ------------------------------------------------

def packets(path):
    """The packets of a pcapng file; every block must be whole."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, []
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        expect(size >= 12 and size % 4 == 0 and at + size <= len(data), f"block of {size} bytes at {at}")
        expect(struct.unpack_from("=I", data, at + size - 4)[0] == size, f"the block at {at} ends otherwise")
        expect((kind == 0x0A0D0D0A) == (at == 0), f"a section begins at {at}")
        if kind == 6:
            kept, length = struct.unpack_from("=II", data, at + 20)
            found.append(Packet(data[at + 28:at + 28 + kept], length))
        at += size
    return found


def icrc(frame):
    """The ICRC as a receiver computes it, with the fields that routers may change set to ones."""
    ip = bytearray(frame[14:-4])
    if ip[0] >> 4 == 4:
        udp = 20
        for i in 1, 8, 10, 11:
            ip[i] = 0xFF
    else:
        udp = 40
        ip[0] |= 0x0F
        for i in 1, 2, 3, 7:
            ip[i] = 0xFF
    for i in udp + 6, udp + 7, udp + 8 + 4:
        ip[i] = 0xFF
    return zlib.crc32(bytes(ip), zlib.crc32(b"\xff" * 8)).to_bytes(4, "little")


def opcodes(found):
    """How often each BTH opcode occurs."""
    return collections.Counter(p.data[42 if p.data[12:14] == b"\x08\x00" else 62] for p in found)


def capture(path):
    """The packets of a pcap file, as tcpdump writes it, that are RoCE v2."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 24, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + size]
        if frame[12:14] == b"\x08\x00" and frame[36:38] == b"\x12\xb7":
            found.append(Packet(frame, size))
        at += 16 + size
    return found


def expect_starting_psns(found):
    """A REQ and a REP carry the PSN from which their receiver sends, IBA 12.7.31. The first
    connection counts."""
    ends, first = {}, {}
    for frame in (p.data for p in found):
        bth = frame[42:] if frame[12:14] == b"\x08\x00" else frame[62:]
        source = frame[26:30] if frame[12:14] == b"\x08\x00" else frame[22:38]
        mad, attribute = bth[20:], bth[36:38]
        if bth[0] == 0x64 and attribute == b"\0\x10":
            if "passive" in ends:
                break
            ends["active"] = (source, mad[56:59], mad[68:71])
        elif bth[0] == 0x64 and attribute == b"\0\x13":
            ends["passive"] = (source, mad[36:39], mad[44:47])
        elif bth[0] <= 0x0c:  # SEND, WRITE, READ request
            first.setdefault((source, bth[5:8]), bth[9:12])
    active, passive = ends["active"], ends["passive"]
    expect(active[2] != passive[2], "both sides begin at one PSN: nothing can be seen")
    for sender, receiver in (active, passive), (passive, active):
        psn = first[sender[0], receiver[1]]
        expect(psn == receiver[2], f"the first PSN is {psn.hex()}, the receiver's message says {receiver[2].hex()}")


# ---- reading it with tshark -----------------------------------------------------------

def tshark(path, *arguments):
    need("tshark")
    done = subprocess.run(["tshark", "-r", path, *arguments], check=False, capture_output=True, text=True,
                          timeout=600)
    expect(done.returncode == 0, done.stderr)
    return done.stdout.splitlines()


def expect_well_formed(path, *arguments):
    bad = tshark(path, "-Y", "_ws.malformed || _ws.expert.severity == error", *arguments)
    expect(not bad, "malformed:\n" + "\n".join(bad[:10]))


# ---- programs -------------------------------------------------------------------------

def trace_pair(path, server, client, options=()):
    port = free_port()
    both(port, [*server, "-p", str(port)], [*client, "-p", str(port)], softrdma("--trace", path, *options))


def rping(path, address, *options):
    need("rping")
    command = ["rping", "-a", address, "-C", "3", "-V"]
    trace_pair(path, [*command, "-s"], [*command, "-c"], options)


def in_scratch(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        with tempfile.TemporaryDirectory(prefix="softrdma-trace.") as folder:
            function(os.path.join(folder, "trace.pcapng"), *arguments)
    return wrapper


@in_scratch
def whole_blocks_and_icrcs(path, address):
    rping(path, address)
    found = packets(path)
    expect(found, "no packets")
    for i, p in enumerate(found, 1):
        expect(p.length == len(p.data), f"packet {i} is cut")
        expect(icrc(p.data) == p.data[-4:], f"packet {i}: ICRC {p.data[-4:].hex()}, not {icrc(p.data).hex()}")
    n = opcodes(found)
    # CM: REQ REP RTU DREQ DREP. Each of 3 pings: 4 SENDs, a READ and a WRITE; one SEND begins them
    expect(n[0x64] in (4, 5), f"{n[0x64]} datagrams of the connection manager")
    expect(n[10] == n[12] == n[16] == 3, f"WRITEs, READs, their answers: {n}")
    expect(n[4] >= 12 and n[17] == n[4] + n[10], f"SENDs, acknowledgements: {n}")


@in_scratch
def starting_psns(path, address):
    rping(path, address)
    expect_starting_psns(packets(path))


def starting_psns_of_linux():
    expect_starting_psns(capture(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rping-rxe.pcap")))


@in_scratch
def verbs_decoded(path, address):
    rping(path, address)
    expect_well_formed(path)
    lines = "\n".join(tshark(path))
    for text in ("ConnectRequest", "ConnectReply", "ReadyToUse", "RC Send Only", "RDMA Read Request",
                 "RDMA Read Response Only", "RDMA Write Only", "RC Acknowledge", "Disconnect"):
        expect(text in lines, f"no {text} in\n{lines}")


@in_scratch
def cut_packets(path):
    rping(path, HERE, "--snap", "60")
    found = packets(path)
    expect(found and max(len(p.data) for p in found) == 60, "a packet of more than 60 bytes")
    expect(max(p.length for p in found) > 300, "the whole length is lost")
    expect_well_formed(path)


@in_scratch
def private(path):
    """The trace holds data: no other user reads it, whatever the umask is."""
    before = os.umask(0)
    try:
        rping(path, HERE)
    finally:
        os.umask(before)
    expect((mode := os.stat(path).st_mode & 0o777) == 0o600, f"mode {mode:o}")


@in_scratch
def limited(path):
    """At its limit the trace ends, with whole packets, and the programs go on."""
    need("rping")
    command = ["rping", "-a", HERE, "-C", "60", "-S", "30000", "-V"]
    port = free_port()
    said = both(port, [*command, "-s", "-p", str(port)], [*command, "-c", "-p", str(port)],
                softrdma("--trace", path, "--limit", "1"))
    expect(any("tracing ends, the file has reached its limit" in each for each in said), f"it says nothing:\n{said}")
    expect(1 << 19 < (size := os.stat(path).st_size) <= 1 << 20, f"{size} bytes")
    expect(packets(path), "no packets")


@in_scratch
def large_messages(path):
    """Cut to the path MTU, and reassembled by the reader."""
    size = 3 * 1024 + 5
    command = ["ibv_rc_pingpong", "-g", "0", "-n", "2", "-r", "2", "-m", "1024", "-c", "-s", str(size)]
    need(command[0])
    trace_pair(path, command, [*command, HERE])
    n = opcodes(packets(path))
    expect((n[0], n[1], n[2], n[17]) == (4, 8, 4, 4), f"first, middle, last, acknowledged: {n}")
    for p in packets(path):
        expect(icrc(p.data) == p.data[-4:], "ICRC of a padded packet")
    expect_well_formed(path)


@in_scratch
def extended_connections(path):
    """XRC's opcodes are RC's with other high bits, and each request names an SRQ after its BTH. (Wireshark 4.0 does
    not know them.)"""
    command = ["ibv_xsrq_pingpong", "-g", "0", "-n", "3", "-m", "1024", "-s", str(3 * 1024 + 5)]
    need(command[0])
    trace_pair(path, command, [*command, HERE])
    n = opcodes(packets(path))
    # One that the other end is not ready for shows its first packet, with a NAK or in silence, and comes again.
    expect(set(n) == {0xa0, 0xa1, 0xa2, 0xb1} and n[0xa1] == 2 * n[0xa2] and min(n[0xa0], n[0xb1]) >= n[0xa2] > 3,
           f"first, middle, last, acknowledgement: {n}")
    named = {p.data[54:58] for p in packets(path) if p.data[42] < 0xb1}
    expect(len(named) == 2 and all(n[0] == 0 and n != bytes(4) for n in named), f"SRQs of two processes: {named}")
    for p in packets(path):
        expect(icrc(p.data) == p.data[-4:], "ICRC of a padded packet")


@in_scratch
def unreliable_connections(path):
    """UC's own opcodes, and nothing answers."""
    command = ["ibv_uc_pingpong", "-g", "0", "-n", "2", "-r", "2", "-m", "1024", "-s", str(3 * 1024 + 5)]
    need(command[0])
    trace_pair(path, command, [*command, HERE])
    n = opcodes(packets(path))
    expect((n[0x20], n[0x21], n[0x22]) == (4, 8, 4) and sum(n.values()) == 16, f"first, middle, last: {n}")
    for p in packets(path):
        expect(icrc(p.data) == p.data[-4:], "ICRC of a padded packet")
    expect_well_formed(path)


@in_scratch
def atomics(path):
    need("ib_atomic_lat")
    command = ["ib_atomic_lat", "-F", "-n", "5"]
    trace_pair(path, command, [*command, HERE])
    n = opcodes(packets(path))
    expect(n[20] == n[18] >= 5, f"FETCH & ADD and answers: {n}")
    expect_well_formed(path)


# ---- NVMe -----------------------------------------------------------------------------

def bench(path, port, *options):
    program = Program([RBLK, "bench", "--fabric", "soft", "-d", "1", "--ramp", "0", "-t", "10ms", *options,
                       f"{NQN}@{HERE}:{port}"], wrapper=[], env={"SOFTRDMA_TRACE": path})
    try:
        program.expect_success()
    finally:
        program.end()


@in_scratch
def nvme_capsules(path):
    need("tshark")
    folder, port = os.path.dirname(path), free_port()
    config = os.path.join(folder, "target.yaml")
    with open(config, "w", encoding="ascii") as f:
        f.write(f"version: 1\nfabric: soft\ncontrol_socket: {folder}/socket\n"
                f"portals:\n  - {{name: p, address: {HERE}, port: {port}}}\n"
                f"subsystems:\n  - nqn: {NQN}\n    allow_any_host: true\n"
                "    namespaces:\n      - {nsid: 1, ram: 16MiB}\n")
    target = Program([RBLKD, "--config", config], wrapper=[], env={"SOFTRDMA_TRACE": path})
    try:
        wait_until(lambda: listens(port), "rblkd listens", target)
        for options in ["--rw", "read", "--bs", "4k"], ["--rw", "write", "--bs", "64k"], ["--rw", "read", "--bs", "16k"]:
            bench(path, port, *options)
        target.process.terminate()
        target.expect_success()
    finally:
        target.end()
    our_port = ["-o", f"nvme-rdma.subsystem_ports:{port}"]
    expect_well_formed(path, *our_port)
    lines = "\n".join(tshark(path, *our_port))
    for text in ("NVMeOF Connect", "NVMeOF Property Get", "NVMeOF CQE for Connect", "NVMe Identify Controller",
                 "NVMeOF Data for Identify", "NVMe Read", "NVMe CQE for Read", "NVMeOF Data for Read", "NVMe Write",
                 "RDMA Read Request", "NVMeOF Data for Write", "NVMe CQE for Write"):
        expect(text in lines, f"tshark found no {text} in\n" + lines[:4000])
    # every command precedes its response: the order in the file is that of cause and effect
    counts = [lines.count(text) for text in ("| NVMe Read", "CQE for Read", "| NVMe Write", "CQE for Write")]
    expect(counts[0] == counts[1] > 0 and counts[2] == counts[3] > 0, f"commands and responses: {counts}")


if __name__ == "__main__":
    enter_own_network()
    sys.exit(run([
        ("blocks, lengths, packets and ICRCs of rping", functools.partial(whole_blocks_and_icrcs, HERE)),
        ("blocks, lengths, packets and ICRCs over IPv6", functools.partial(whole_blocks_and_icrcs, "::1")),
        ("starting PSNs in a capture of Linux' rdma_rxe", starting_psns_of_linux),
        ("starting PSNs of rping", functools.partial(starting_psns, HERE)),
        ("starting PSNs of rping over IPv6", functools.partial(starting_psns, "::1")),
        ("tshark decodes rping", functools.partial(verbs_decoded, HERE)),
        ("tshark decodes rping over IPv6", functools.partial(verbs_decoded, "::1")),
        ("--snap cuts packets", cut_packets),
        ("others cannot read a trace", private),
        ("--limit ends a trace", limited),
        ("large messages come in packets of the path MTU", large_messages),
        ("atomic operations", atomics),
        ("extended connections", extended_connections),
        ("unreliable connections", unreliable_connections),
        ("tshark decodes a session of rblk", nvme_capsules),
    ]))
