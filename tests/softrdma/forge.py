# SPDX-License-Identifier: BSD-3-Clause
"""Messages of the connection manager in RoCE v2 packets, made by hand (IBA 12.6, annex A17; IPv4):
from an ordinary socket, or with any source address from a raw one.

forge.py requests ADDRESS PORT RATE: sends so many a second, in many names.
forge.py ask SOURCE ADDRESS PORT COUNT: asks so many questions, each until it has its answer."""

import itertools
import os
import random
import socket
import struct
import sys
import time
import zlib

from foreign import Failure, PATIENCE

PORT = 4791
BURST = 64
ALL = 3  # protocols, and both directions
TCP, UDP = 0x0106, 0x0111  # port spaces
NVME = struct.pack("<HHHHH", 0, 0, 32, 31, 0)  # private data for an admin queue
REQ, REJ, REP, SIDR_REQ, SIDR_REP = 0x10, 0x12, 0x13, 0x17, 0x18
MAD_AT = 20  # behind BTH and DETH
WRITE_FIRST, ACK, UD_SEND_ONLY = 0x06, 0x11, 0x64


def icrc(source, destination, source_port, payload, ip_id):
    """Over the headers with ones in place of what routers change."""
    n = len(payload) + 12
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0xff, 20 + n, ip_id, 0x4000, 0xff, 17, 0xffff,
                     socket.inet_aton(source), socket.inet_aton(destination))
    udp = struct.pack("!HHHH", source_port, PORT, n, 0xffff)
    masked = payload[:4] + b"\xff" + payload[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


def bth(opcode, qpn, psn, becn=0):
    return struct.pack("!BBHII", opcode, 0x40, 0xffff, becn << 30 | qpn, psn)


def datagram(mad):
    """To queue pair 1."""
    return bth(UD_SEND_ONLY, 1, 0) + struct.pack("!II", 0x80010000, 1) + mad


def mad(attribute, data):
    header = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, random.getrandbits(64), attribute, 0, 0)
    return (header + data).ljust(256, b"\0")


def ip_annex(source, destination):
    return struct.pack("!BBH12x4s12x4s", 0, 0x40, 40000, socket.inet_aton(source), socket.inet_aton(destination))


def service(space, port):
    return struct.pack("!Q", space << 16 | port)


def request(source, destination, port, qpn, guid, private=b""):
    """A ConnectRequest, of a peer that repeats it for long."""
    data = bytearray(232)
    struct.pack_into("!I", data, 0, random.getrandbits(31) | 1)
    data[8:16] = service(TCP, port)
    data[16:24] = guid
    struct.pack_into("!IIII", data, 32, qpn << 8 | 16, 16, 20 << 3, 1 << 8 | 20 << 3 | 7)
    struct.pack_into("!HBBHH", data, 48, 0xffff, 3 << 4 | 7, 15 << 4, 0xffff, 0xffff)
    for at, address in (56, source), (72, destination):
        data[at:at + 16] = b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address)
    data[93], data[95] = 64, 17 << 3
    private = ip_annex(source, destination) + private
    data[140:140 + len(private)] = private
    return datagram(mad(REQ, bytes(data)))


def question(source, destination, port):
    """A ServiceIDResolutionRequest."""
    head = struct.pack("!IHH", random.getrandbits(31) | 1, 0xffff, 0)
    return datagram(mad(SIDR_REQ, head + service(UDP, port) + ip_annex(source, destination)))


def nak(qpn, psn):
    """A remote access error, which ends a connection."""
    return bth(ACK, qpn, psn) + struct.pack("!I", 0x62 << 24)


class Wire:
    """The IPv4 packets of RoCE of an interface, as root sees them."""

    def __init__(self, link):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL))
        self.socket.bind((link, ALL))
        self.socket.settimeout(PATIENCE)
        self.source_port = 0  # of the last packet

    def next(self):
        """(source, destination, what follows the UDP header)"""
        while True:
            try:
                packet = self.socket.recv(65536)
            except TimeoutError:
                raise Failure("no packet comes") from None
            if packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP and packet[22:24] == struct.pack("!H", PORT):
                self.source_port = int.from_bytes(packet[20:22], "big")
                return socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20]), packet[28:]

    def next_of(self, opcode, source):
        while True:
            origin, _, packet = self.next()
            if packet[0] == opcode and origin == source:
                return packet

    def next_mad(self, attribute, source):
        while True:
            found = self.next_of(UD_SEND_ONLY, source)[MAD_AT:MAD_AT + 256]
            if found[16:18] == struct.pack("!H", attribute):
                return found


class Socket:
    """An ordinary one, as any user may have."""

    def __init__(self, source, port=0):
        self.source, self.socket = source, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((source, port))
        self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: the ID is 0
        self.port = self.socket.getsockname()[1]

    def send(self, destination, payload):
        self.socket.sendto(payload + icrc(self.source, destination, self.port, payload, 0), (destination, PORT))


class RawSocket:
    """In any name; root's."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def send(self, source, destination, payload, port=PORT):
        payload += icrc(source, destination, port, payload, 5)
        n = len(payload) + 8
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 2, 20 + n, 5, 0x4000, 64, 17, 0,
                             socket.inet_aton(source), socket.inet_aton(destination))
        self.socket.sendto(header + struct.pack("!HHHH", port, PORT, n, 0) + payload, (destination, 0))


def keep_sending(make, destination, port, rate):
    """Each in the name of another host: 10.100.0.0 and above."""
    out, begin = RawSocket(), time.monotonic()
    for i in itertools.count():
        source = f"10.{random.randrange(100, 250)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        out.send(source, destination, make(source, destination, port))
        time.sleep(max(0.0, begin + i / rate - time.monotonic()))


def any_request(source, destination, port):
    return request(source, destination, port, random.randrange(256, 1 << 24), os.urandom(8), NVME)


def answered(packet):
    """The question whose answer it is."""
    found = packet[MAD_AT:MAD_AT + 256]
    return found[24:28] if found[16:18] == struct.pack("!H", SIDR_REP) else None


def ask(source, destination, port, count):
    out = Socket(source, PORT)
    out.socket.settimeout(0.2)
    for _ in range(0, count, BURST):
        waiting, end = {}, time.monotonic() + PATIENCE
        for _ in range(BURST):
            packet = question(source, destination, port)
            waiting[packet[MAD_AT + 24:MAD_AT + 28]] = packet
        send = True
        while waiting:
            if time.monotonic() > end:
                sys.exit(f"{len(waiting)} questions have no answer")
            for packet in waiting.values() if send else ():
                out.send(destination, packet)
            try:
                waiting.pop(answered(out.socket.recv(4096)), None)
                send = False
            except TimeoutError:
                send = True


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        keep_sending(any_request, sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
