#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""softrdma --roce between two hosts: two network namespaces with a veth between them. Foreign
programs as Debian ships them, over IPv4 and IPv6, small and large packets, with packets lost,
repeated, exchanged and damaged. As root, and the same as an ordinary user."""

import os
import signal
import subprocess
import sys
import tempfile
from functools import partial

from foreign import Failure, HERE, Program, Skip, enter_own_network, need, run, softrdma, wait_until
from test_trace import expect, expect_well_formed, icrc, packets

LOCAL, REMOTE = "10.9.0.1", "10.9.0.2"
LOCAL6, REMOTE6 = "fd09::1", "fd09::2"
SMALL, LARGE = 1500, 9000
FAULTS_1 = "seed=1,drop=1,dup=1,swap=1,corrupt=1,late-packet=1"
FAULTS_10 = "seed=2,drop=10,dup=10,swap=10,corrupt=10,late-packet=10"
# Programs exchange the numbers of their queue pairs by TCP, and this is its port.
PORT = "18515"


class Hosts:
    """This network namespace and a second one, which a sleeping process holds."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        wait_until(lambda: os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino,
                   "a second network namespace")
        self.there = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        self.ip(["link", "add", "here0", "type", "veth", "peer", "name", "there0", "netns", str(self.holder.pid)])
        for at, end, v4, v6 in ([], "here0", LOCAL, LOCAL6), (self.there, "there0", REMOTE, REMOTE6):
            self.ip(["link", "set", "lo", "up"], at)
            # without a link-local address the GIDs are in a known order
            self.ip(["link", "set", end, "addrgenmode", "none"], at)
            self.ip(["addr", "add", f"{v4}/24", "dev", end], at)
            self.ip(["-6", "addr", "add", f"{v6}/64", "dev", end, "nodad"], at)
            self.ip(["link", "set", end, "up"], at)
        self.set_mtu(SMALL)

    @staticmethod
    def ip(arguments, at=()):
        subprocess.run([*at, "ip", *arguments], check=True)

    def set_mtu(self, mtu):
        self.ip(["link", "set", "here0", "mtu", str(mtu)])
        self.ip(["link", "set", "there0", "mtu", str(mtu)], self.there)

    def end(self):
        self.holder.kill()
        self.holder.wait()


HOSTS = None


def tcp_listens():
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as f:
            if any(line.split()[1].endswith(f":{int(PORT):04X}") and line.split()[3] == "0A" for line in f):
                return True
    return False


def wrap(at, *options):
    command = softrdma("--roce", *options)
    return [*at, *command]


def start_pair(server, client, env=None, options=((), ())):
    """The server here, the client on the other host."""
    need(server[0])
    env = dict(env or {}, SOFTRDMA_ROCE="any")
    first = Program(server, wrap([], *options[0]), env=env)
    try:
        wait_until(tcp_listens, "the server listens", first)
        return first, Program(client, wrap(HOSTS.there, *options[1]), env=env)
    except BaseException:
        first.end()
        raise


def both(server, client, **kwargs):
    first, second = start_pair(server, client, **kwargs)
    try:
        second.expect_success()
        first.expect_success()
    except Failure as e:
        raise Failure(f"{e}\nserver: {first}\nclient: {second}") from None
    finally:
        first.end()
        second.end()
    return first.said(), second.said()


def same(command, **kwargs):
    """The same program on both sides; the client gets the address."""
    return both(command, [*command, LOCAL], **kwargs)


def gid(v6):
    return "1" if v6 else "0"


def pingpong(mtu, path_mtu, v6, size="4096", faults=None, n="300"):
    HOSTS.set_mtu(mtu)
    # -c: the contents are compared; -e: sleeping, as most programs do
    command = ["ibv_rc_pingpong", "-g", gid(v6), "-m", path_mtu, "-n", n, "-s", size, "-c"]
    said = same(command + (["-e"] if faults else []), env={"SOFTRDMA_CHAOS": faults} if faults else None)
    address = LOCAL6 if v6 else LOCAL
    expect(address in said[0], f"{address} is not the address of\n{said[0]}")


def perftest(name, *options, faults=None):
    if "XRC" in options and os.environ.get("SOFTRDMA_TEST_AS_USER"):
        raise Skip("perftest's files of XRC domains in /tmp are the first user's")
    HOSTS.set_mtu(LARGE)
    # a time-out of a second: a peer on a busy machine is late, not gone
    command = [name, "-F", "-x", "0", "-u", "18", *options]
    same(command, env={"SOFTRDMA_CHAOS": faults} if faults else None)


def datagrams(mtu, v6, size="1000", *options):
    HOSTS.set_mtu(mtu)
    said = same(["ibv_ud_pingpong", "-g", gid(v6), "-n", "300", "-s", size, "-c", *options])
    expect((LOCAL6 if v6 else LOCAL) in said[0], f"not the right address in\n{said[0]}")


def unreliable(mtu, path_mtu, v6, size="4096", faults=None):
    """Connections that lose messages: WRITEs are counted by their sender, so faults do no harm."""
    HOSTS.set_mtu(mtu)
    if faults:
        same(["ib_write_bw", "-F", "-x", gid(v6), "-c", "UC", "-n", "500", "-s", size],
             env={"SOFTRDMA_CHAOS": faults})
        return
    said = same(["ibv_uc_pingpong", "-g", gid(v6), "-m", path_mtu, "-n", "300", "-s", size, "-e"])
    expect((LOCAL6 if v6 else LOCAL) in said[0], f"not the right address in\n{said[0]}")


def vanished_peer():
    """SIGKILL leaves the other side with retries, and then an error; nothing hangs."""
    HOSTS.set_mtu(SMALL)
    command = ["ib_write_bw", "-F", "-x", "0", "-D", "60", "-u", "10"]  # retries after 16.8 ms
    first, second = start_pair(command, [*command, LOCAL])
    try:
        wait_until(lambda: udp_sockets() > 0, "the server's port is open", first)
        second.process.send_signal(signal.SIGSTOP)
        os.killpg(first.process.pid, signal.SIGKILL)
        second.process.send_signal(signal.SIGCONT)
        second.expect_refusal()
    finally:
        first.end()
        second.end()


def udp_sockets():
    with open("/proc/net/udp", encoding="ascii") as f:
        return sum(line.split()[1].endswith(":12B7") for line in f if ":" in line)


def on_one_host():
    """Peers of one host and user stay on shared memory: no packet leaves."""
    HOSTS.set_mtu(SMALL)
    command = ["ibv_rc_pingpong", "-g", "0", "-n", "100"]
    need(command[0])
    first = Program(command, wrap([]))
    try:
        wait_until(tcp_listens, "the server listens", first)
        second = Program([*command, HERE], wrap([]))
        second.expect_success()
        first.expect_success()
    finally:
        first.end()


def too_large_for_the_link():
    """A path MTU that the link cannot carry is named; the programs end."""
    HOSTS.set_mtu(SMALL)
    command = ["ibv_rc_pingpong", "-g", "0", "-m", "4096", "-n", "10", "-s", "4096"]
    first, second = start_pair(command, [*command, LOCAL])
    try:
        second.expect_refusal()
        expect("too large for the path" in second.said(), second.said())
    finally:
        first.end()
        second.end()


def port_in_use():
    """Another owner of port 4791 is named, and the program ends in order."""
    HOSTS.set_mtu(SMALL)
    with tempfile.TemporaryDirectory():
        holder = subprocess.Popen([sys.executable, "-c",
                                   "import socket,time\ns=socket.socket(type=2)\ns.bind(('', 4791))\n"
                                   "print(flush=True)\ntime.sleep(600)"], stdout=subprocess.PIPE)
        try:
            holder.stdout.readline()
            command = ["ibv_rc_pingpong", "-g", "0", "-n", "100"]
            first, second = start_pair(command, [*command, LOCAL])
            try:
                wait_until(lambda: "4791" in first.said(), "the message", None)
                expect("Address already in use" in first.said(), first.said())
            finally:
                first.end()
                second.end()
        finally:
            holder.kill()
            holder.wait()


def trace_of_the_wire():
    HOSTS.set_mtu(LARGE)
    with tempfile.TemporaryDirectory(prefix="softrdma-roce.") as folder:
        path = os.path.join(folder, "trace.pcapng")
        command = ["ibv_rc_pingpong", "-g", "0", "-m", "1024", "-n", "20", "-s", "5000"]
        same(command, options=(("--trace", path), ()))
        found = packets(path)
        expect(len(found) > 200, f"only {len(found)} packets")
        for i, p in enumerate(found, 1):
            expect(icrc(p.data) == p.data[-4:], f"packet {i}: a wrong ICRC")
        expect_well_formed(path)


def xrc_pingpong(mtu, v6, size="4096", faults=None):
    HOSTS.set_mtu(mtu)
    same(["ibv_xsrq_pingpong", "-g", gid(v6), "-n", "200", "-s", size, "-e"],
         env={"SOFTRDMA_CHAOS": faults} if faults else None)


def xrc_astray():
    """A request for a queue that is not there is refused as invalid; one whose key is of another domain than the
    queue, for want of access. All others are carried out."""
    python = "/usr/bin/python3"  # for which Debian's pyverbs is
    need(python)
    if subprocess.run([python, "-c", "import pyverbs.xrcd"], check=False, capture_output=True).returncode:
        raise Skip("python3-pyverbs is not installed")
    HOSTS.set_mtu(SMALL)
    said = same([python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "xrc_astray.py")],
                env={"PORT": PORT})[1]
    invalid, denied = 9, 10  # IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR
    for words in (f"SEND none {invalid}", f"WRITE none {invalid}", f"READ none {invalid}", "SEND one 0", "WRITE one 0",
                  "READ one 0", f"WRITE two {denied}", f"READ two {denied}"):
        expect(words in said, f"no {words} in\n{said}")


def as_ordinary_user():
    if os.geteuid() or os.environ.get("SOFTRDMA_TEST_AS_USER"):
        return
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    need(prefix[0])
    probe = subprocess.run([*prefix, "unshare", "-rn", "test", "-r", __file__, "-a", "-r", os.environ["SOFTRDMA_LIB"]],
                           check=False, capture_output=True)
    if probe.returncode:
        raise Skip("another user can make no network namespace, or cannot read the build")
    inside = dict(os.environ, SOFTRDMA_TEST_AS_USER="1", PYTHONDONTWRITEBYTECODE="1")
    inside.pop("SOFTRDMA_TEST_NETNS", None)
    done = subprocess.run([*prefix, sys.executable, os.path.abspath(__file__)], check=False, capture_output=True,
                          text=True, env=inside, cwd="/")
    expect(done.returncode == 0, done.stdout + done.stderr)


CASES = [
    ("ibv_rc_pingpong over IPv4, path MTU 1024", partial(pingpong, SMALL, "1024", False)),
    ("ibv_rc_pingpong over IPv6, path MTU 1024", partial(pingpong, SMALL, "1024", True)),
    ("ibv_rc_pingpong over IPv4, path MTU 4096", partial(pingpong, LARGE, "4096", False)),
    ("ibv_rc_pingpong over IPv6, path MTU 4096", partial(pingpong, LARGE, "4096", True)),
    ("messages of 1 MiB", partial(pingpong, LARGE, "4096", False, size="1048576", n="20")),
    ("messages of 3333 bytes in packets of 256", partial(pingpong, SMALL, "256", False, size="3333")),
    ("1 % of each fault", partial(pingpong, SMALL, "1024", False, faults=FAULTS_1)),
    ("10 % of each fault", partial(pingpong, SMALL, "1024", False, faults=FAULTS_10, n="100")),
    ("10 % of each fault, IPv6", partial(pingpong, LARGE, "4096", True, faults=FAULTS_10, n="100")),
    ("ibv_ud_pingpong over IPv4", partial(datagrams, SMALL, False)),
    ("ibv_ud_pingpong over IPv6, sleeping", partial(datagrams, SMALL, True, "999", "-e")),
    ("ibv_ud_pingpong, 4096 bytes", partial(datagrams, LARGE, False, "4096")),
    ("ibv_uc_pingpong over IPv4", partial(unreliable, SMALL, "1024", False)),
    ("ibv_uc_pingpong over IPv6", partial(unreliable, LARGE, "4096", True)),
    ("ibv_uc_pingpong, 100000 bytes", partial(unreliable, SMALL, "1024", False, "100000")),
    ("UC with 10 % of each fault", partial(unreliable, LARGE, "4096", False, "65536", FAULTS_10)),
    ("ibv_xsrq_pingpong over IPv4", partial(xrc_pingpong, SMALL, False)),
    ("ibv_xsrq_pingpong over IPv6", partial(xrc_pingpong, LARGE, True, "100000")),
    ("XRC with 1 % of each fault", partial(xrc_pingpong, SMALL, False, "10000", FAULTS_1)),
    ("XRC requests that name no queue", xrc_astray),
    ("vanished peer", vanished_peer),
    ("peers on one host stay on shared memory", on_one_host),
    ("a path MTU that the link cannot carry", too_large_for_the_link),
    ("port 4791 in use", port_in_use),
    ("--trace shows the wire", trace_of_the_wire),
    *((f"{name} {' '.join(options)}", partial(perftest, name, *options)) for name, *options in (
        ("ib_send_lat", "-n", "200"), ("ib_send_bw", "-n", "500", "-s", "65536"), ("ib_write_lat", "-n", "200"),
        ("ib_write_bw", "-n", "500", "-q", "4"), ("ib_read_lat", "-n", "200"), ("ib_read_bw", "-n", "500"),
        ("ib_read_bw", "-n", "50", "-s", "1048576"), ("ib_atomic_lat", "-n", "100"), ("ib_atomic_bw", "-n", "200"),
        ("ib_send_lat", "-n", "100", "-e"), ("ib_send_lat", "-n", "100", "-c", "UD"),
        ("ib_send_lat", "-n", "100", "-c", "UC"), ("ib_write_lat", "-n", "100", "-c", "UC"),
        ("ib_write_bw", "-n", "500", "-c", "UC"),
        ("ib_send_lat", "-n", "100", "-c", "XRC"), ("ib_write_bw", "-n", "200", "-c", "XRC", "-q", "2"),
        ("ib_read_bw", "-n", "100", "-c", "XRC"), ("ib_atomic_bw", "-n", "100", "-c", "XRC"))),
    ("ib_read_bw with 2 % of each fault",
     partial(perftest, "ib_read_bw", "-n", "100", faults="seed=3,drop=2,dup=2,swap=2,corrupt=2")),
    ("ib_atomic_bw with 2 % of each fault",
     partial(perftest, "ib_atomic_bw", "-n", "100", faults="seed=4,drop=2,dup=2,swap=2,corrupt=2")),
]


def main():
    global HOSTS
    enter_own_network()
    if not os.environ.get("SOFTRDMA_TEST_NETNS"):
        print("1..0 # SKIP no network namespace can be made")
        return 0
    HOSTS = Hosts()
    try:
        return run([*CASES, ("the same as an ordinary user", as_ordinary_user)], lanes=1)
    finally:
        HOSTS.end()


if __name__ == "__main__":
    sys.exit(main())
