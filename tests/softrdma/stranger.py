# SPDX-License-Identifier: BSD-3-Clause
"""A third host for tests of RoCE: a network namespace on a cable of its own to this one (far.py),
from which forged ICMP comes. Its messages quote a packet from HERE to THERE, or to another
address, to UDP port 4791, that the stranger has never seen; but it knows the ports from which the
host sends.

stranger.py ADDRESS MESSAGE COUNT PID [QUOTED...]: sends from the stranger's side; the process PID
is on the host."""

import functools
import itertools
import os
import socket
import struct
import subprocess
import sys
import time

PORT = 4791
FIRST_RANDOM = 0xc000
BURST = 128
# (type, code, what the second word says), for IPv4 and IPv6
MESSAGES = {
    "too-big": ((3, 4, 576), (2, 0, 1280)),
    "port-unreachable": ((3, 3, 0), (1, 4, 0)),
    "host-unreachable": ((3, 1, 0), (1, 3, 0)),
    "protocol-unreachable": ((3, 2, 0), (1, 1, 0)),
    "time-exceeded": ((11, 0, 0), (3, 0, 0)),
}


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def ports_of(pid, is_v6):
    """From which the host may send, random ones first: a host that cannot look has to guess them."""
    with open(f"/proc/{pid}/net/udp{'6' if is_v6 else ''}", encoding="ascii") as f:
        found = {int(line.split()[1].split(":")[1], 16) for line in f if "local_address" not in line}
    return sorted((port for port in found if port >= FIRST_RANDOM), reverse=True) + [PORT]


@functools.lru_cache(maxsize=1 << 16)
def forge(message, quoted_from, quoted_to, port):
    """The ICMP message about a packet of 1100 bytes: its header, and the 8 bytes behind it."""
    is_v6 = ":" in quoted_from
    kind, code, word = MESSAGES[message][is_v6]
    ends = [socket.inet_pton(socket.AF_INET6 if is_v6 else socket.AF_INET, a) for a in (quoted_from, quoted_to)]
    if is_v6:
        header = struct.pack("!IHBB16s16s", 6 << 28, 1080, 17, 64, *ends)
    else:
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 2, 1100, 0, 0x4000, 64, 17, 0, *ends)
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    packet = struct.pack("!BBHI", kind, code, 0, word) + header + struct.pack("!HHHH", port, PORT, 1080, 0)
    # the kernel fills in the checksum of ICMPv6
    return packet if is_v6 else packet[:2] + struct.pack("!H", checksum(packet)) + packet[4:]


def others(address):
    """Addresses like it: the kernel gives errors about different peers to different sockets."""
    if ":" in address:
        return [f"{address.rsplit(':', 1)[0]}:{i:x}" for i in range(256, 512)]
    return [f"{address.rsplit('.', 2)[0]}.{i}.7" for i in range(100, 256)]


class Stranger:
    """A cable from this namespace to a third one."""
    ADDRESSES = {"far2": ("10.98.1.1", "fd98::1"), "far3": ("10.98.1.3", "fd98::3")}

    def __init__(self, wait_until):
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own, "a third network namespace")
        self.enter = ["nsenter", "-t", str(self.process.pid), "-n"]
        subprocess.run(["ip", "link", "add", "far2", "type", "veth", "peer", "name", "far3",
                        "netns", str(self.process.pid)], check=True)
        for enter, link in ([], "far2"), (self.enter, "far3"):
            v4, v6 = self.ADDRESSES[link]
            for words in (["addr", "add", v4 + "/24", "dev", link], ["addr", "add", v6 + "/64", "dev", link, "nodad"],
                          ["link", "set", link, "up"]):
                subprocess.run([*enter, "ip", *words], check=True)
        for to, via in ("10.99.0.0/24", "10.98.1.1"), ("fd99::/64", "fd98::1"):
            subprocess.run([*self.enter, "ip", "route", "add", to, "via", via], check=True)

    def command(self, to, message, count, *quoted):
        return [*self.enter, sys.executable, os.path.abspath(__file__), to, message, str(count), str(os.getpid()),
                *quoted]

    def send(self, *arguments):
        subprocess.run(self.command(*arguments), check=True)

    def keep_sending(self, *arguments):
        """A process, which the caller ends."""
        return subprocess.Popen(self.command(*arguments[:2], 1 << 40, *arguments[2:]))

    def end(self):
        self.process.kill()
        self.process.wait()


def forged(to, messages, pid, quoted):
    """Without end. The ports change while programs begin and end."""
    while True:
        for port in ports_of(pid, ":" in to):
            for peer in quoted:
                for message in messages:
                    yield forge(message, to, peer, port)


def main():
    to, messages, count, pid, *quoted = sys.argv[1:]
    is_v6 = ":" in to
    out = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_RAW,
                        socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP)
    for i, packet in enumerate(itertools.islice(forged(to, messages.split(","), pid, quoted), int(count))):
        out.sendto(packet, (to, 0))
        if i % BURST == BURST - 1:
            time.sleep(0.005)  # the programs need the processors, too


if __name__ == "__main__":
    main()
