#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections between two hosts over RoCE v2, by stock programs: the connection manager's MADs on
queue pair 1, and data behind them. SOFTRDMA_LIB names the library; --unprivileged: without
root's rights."""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time

import far
from foreign import Failure, Program, free_port, listens, need, run, wait_until
from test_trace import expect, expect_well_formed, icrc, packets, tshark

RBLKD, RBLK = os.environ["RBLKD"], os.environ["RBLK"]
UDADDY_PORT = 7174
NQN = "nqn.2026-01.org.example:far"


class Rig:
    """One pair of hosts for all cases; the programs of one address take turns."""
    other = None


def pair(server, client, address=far.HERE, env=None):
    """A server here and a client there; both must succeed, with faults the client."""
    port = free_port()
    words = [[w.replace("PORT", str(port)).replace("HERE", address) for w in line.split()]
             for line in (server, client)]
    need(words[0][0], words[1][0])
    first = far.here(words[0], env)
    second = None
    try:
        wait_until(lambda: listens(port), "the server listens", first)
        second = Rig.other.program(words[1], env)
        try:
            second.expect_success()
            if not env:  # a program that ends cannot repeat a DREQ that was lost
                first.expect_success()
        except Failure as e:
            raise Failure(f"{e}\nserver: {first}\nclient: {second}") from None
    finally:
        first.end()
        if second:
            second.end()
    return first.said(), second.said()


def rping(address, env=None, size=64):
    options = f"-a HERE -p PORT -V -C 20 -v -S {size}"
    both = pair(f"rping -s {options}", f"rping -c {options}", address, env)
    for said in both[1:] if env else both:
        if said.count("ping data: rdma-ping-") < 19:
            raise Failure(f"rping did not get through:\n{said}")


def datagrams(address, env=None, options=""):
    """udaddy, whose port is fixed: it asks by SIDR, and then sends datagrams both ways."""
    need("udaddy")
    first, second = far.here(["udaddy", *options.split()], env), None
    try:
        wait_until(lambda: listens(UDADDY_PORT), "the server listens", first)
        second = Rig.other.program(["udaddy", *options.split(), "-s", address], env)
        second.expect_success()
        first.expect_success()
    except Failure as e:
        raise Failure(f"{e}\nserver: {first}\nclient: {second}") from None
    finally:
        first.end()
        if second:
            second.end()


def no_service():
    """No program listens: the answer says so, at once."""
    need("udaddy")
    start = time.monotonic()
    other = Rig.other.program(["udaddy", "-s", far.HERE])
    keeper = far.here(["rping", "-s", "-a", far.HERE, "-p", str(free_port())])  # RoCE is there
    try:
        other.expect_refusal(30)
        if "UNREACHABLE" not in other.said():
            raise Failure(f"another failure: {other}")
        if time.monotonic() - start > 30:
            raise Failure("took too long")
    finally:
        other.end()
        keeper.end()


def no_listener():
    """The other host answers: the request is rejected, with reason 8."""
    need("rping", "ucmatose")
    port = free_port()
    server = far.here(["rping", "-s", "-a", far.HERE, "-p", str(port)])
    try:
        wait_until(lambda: listens(port), "the server listens", server)
        client = Rig.other.program(["ucmatose", "-s", far.HERE, "-p", str(free_port())])
        client.expect_refusal()
        if "RDMA_CM_EVENT_REJECTED, error: 8" not in client.said():
            raise Failure(str(client))
    finally:
        server.end()


def no_roce_there():
    """No process of the other host uses RoCE: its kernel says so, and the attempt ends at once."""
    need("ucmatose")
    begin = time.monotonic()
    client = Rig.other.program(["ucmatose", "-s", far.HERE, "-p", str(free_port())])
    client.expect_refusal()
    if "RDMA_CM_EVENT_UNREACHABLE" not in client.said():
        raise Failure(str(client))
    if time.monotonic() - begin >= 60:
        raise Failure("it was waited for")


def no_route():
    need("ucmatose")
    client = Rig.other.program(["ucmatose", "-s", "10.98.0.1"])
    client.expect_refusal()
    if "RDMA_CM_EVENT_ADDR_ERROR" not in client.said():
        raise Failure(str(client))


def not_allowed():
    """Without SOFTRDMA_ROCE nothing leaves the host."""
    need("ucmatose")
    client = Rig.other.program(["ucmatose", "-s", far.HERE], env={"SOFTRDMA_ROCE": ""})
    client.expect_refusal()
    if "RDMA_CM_EVENT_ADDR_ERROR" not in client.said():
        raise Failure(str(client))


def received():
    """Packets that have come here by the cable."""
    with open("/proc/net/dev", encoding="ascii") as f:
        return next(int(line.split(":")[1].split()[1]) for line in f if "far0:" in line)


def killed():
    """kill -9 of a side that others write to: they fail, in bounded time."""
    need("ib_write_bw")
    port = free_port()
    command = ["ib_write_bw", "-R", "-F", "-D", "60", "-p", str(port)]
    server = far.here(command)
    client = None
    try:
        wait_until(lambda: listens(port), "the server listens", server)
        client = Rig.other.program([*command, far.HERE])
        begin = received()
        wait_until(lambda: received() > begin + 5000, "data flows", client)
        os.killpg(server.process.pid, signal.SIGKILL)
        client.expect_refusal()
    finally:
        server.end()
        if client:
            client.end()


def later_address():
    """A server on the wildcard is reached by an address that came after it began to listen."""
    need("rping")
    port = free_port()
    server = far.here(["rping", "-s", "-p", str(port), "-C", "5"])
    client = None
    try:
        wait_until(lambda: listens(port), "the server listens", server)
        far.ip("addr", "add", "10.99.0.3/24", "dev", "far0")
        wait_until(lambda: "10.99.0.3:4791" in sockets(), "the address is open", server)
        client = Rig.other.program(["rping", "-c", "-a", "10.99.0.3", "-p", str(port), "-C", "5"])
        client.expect_success()
        server.expect_success()
    finally:
        server.end()
        if client:
            client.end()
        far.ip("addr", "del", "10.99.0.3/24", "dev", "far0")


def sockets():
    return subprocess.run(["ss", "-Hnlu"], check=True, capture_output=True, text=True).stdout


def configuration(folder, fabric=None):
    path = os.path.join(folder, "target.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(f"version: 1\nfabric: {fabric or 'auto'}\nportals:\n  - {{name: far, address: {far.HERE}}}\n"
                f"subsystems:\n  - nqn: {NQN}\n    allow_any_host: true\n"
                "    namespaces:\n      - {nsid: 1, ram: 64MiB}\n")
    return path


def storage(mtu, fabric=None):
    """rblkd here, rblk there: every byte that fio writes verifies."""
    need("fio")
    Rig.other.set_mtu(mtu)
    with tempfile.TemporaryDirectory() as folder:
        dirs = [os.path.join(folder, name) for name in ("here", "there")]
        config = configuration(folder, fabric)
        for name in dirs:
            os.mkdir(name)
        command, env = [RBLKD, "--config", config], {"RBLK_RUN_DIR": dirs[0]}
        target = Program(command, [], env) if fabric else far.here(command, env)
        try:
            wait_until(lambda: "listening" in target.said(), "rblkd listens", target)
            attached(dirs[1], fabric)
            target.process.send_signal(signal.SIGTERM)
            target.expect_success()
        finally:
            target.end()
            Rig.other.set_mtu(1500)


def attached(folder, fabric=None):
    env = {"RBLK_RUN_DIR": folder}
    attach = [RBLK, "attach", f"{NQN}@{far.HERE}", "--name", "far", "--frontend", "socket"]
    if fabric:
        Program([*attach, "--fabric", fabric], Rig.other.enter, env).expect_success()
        Program([*attach, "--fabric", fabric], Rig.other.enter, env).expect_success()  # attached as asked
    else:
        Rig.other.program(attach, env).expect_success()
    try:
        uri = f"nbd+unix:///far?socket={folder}/volumes/far.nbd"
        for block, depth in ("4k", 16), ("128k", 4), ("512", 1):
            done = subprocess.run(
                ["fio", "--name=t", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", f"--bs={block}",
                 f"--iodepth={depth}", "--size=2m", "--verify=crc32c", "--verify_fatal=1",
                 "--verify_state_save=0"], check=False, capture_output=True, text=True, cwd=folder)
            if done.returncode:
                raise Failure(done.stdout[-1000:] + done.stderr[-1000:])
    finally:
        Rig.other.program([RBLK, "detach", "far"], env).expect_success()


def bad_roce_address():
    """An address that is none is refused before anything starts."""
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(folder, "soft-roce")
        for command in ([RBLKD, "--config", config],
                        [RBLK, "attach", f"{NQN}@{far.HERE}", "--name", "far", "--fabric", "soft-roce"]):
            program = Program(command, [], {"SOFTRDMA_ROCE": "10.99.0", "RBLK_RUN_DIR": folder})
            if program.wait() != 2 or "neither 'any' nor an IP address" not in program.said():
                raise Failure(str(program))


def traced():
    """--trace holds what was on the wire: tshark finds the commands of NVMe and nothing malformed,
    and each ICRC is right."""
    need("tshark")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.pcapng")
        target = Program([RBLKD, "--config", configuration(folder, "soft-roce")], [],
                         {"RBLK_RUN_DIR": folder, "SOFTRDMA_TRACE": path})
        try:
            wait_until(lambda: "listening" in target.said(), "rblkd listens", target)
            begin = received()
            for options in ["--rw", "read", "--bs", "4k"], ["--rw", "write", "--bs", "16k"]:
                Program([RBLK, "bench", "--fabric", "soft-roce", "-d", "1", "--ramp", "0", "-t", "10ms", *options,
                         f"{NQN}@{far.HERE}"], Rig.other.enter).expect_success()
            arrived = received() - begin
            target.process.send_signal(signal.SIGTERM)
            target.expect_success()
        finally:
            target.end()
        found = packets(path)
        expect(len(found) > arrived, f"{len(found)} packets in the trace, and {arrived} have come")
        for i, p in enumerate(found, 1):
            expect(icrc(p.data) == p.data[-4:], f"packet {i}: a wrong ICRC")
        expect_well_formed(path)
        lines = "\n".join(tshark(path))
        for text in ("CM: ConnectRequest", "CM: ConnectReply", "CM: ReadyToUse", "CM: DisconnectRequest",
                     "NVMeOF Connect", "NVMe Identify Controller", "NVMe Read", "NVMe CQE for Read",
                     "NVMeOF Data for Read", "NVMe Write", "NVMeOF Data for Write", "NVMe CQE for Write"):
            expect(text in lines, f"tshark found no {text} in\n{lines[:4000]}")


def lossy(kind):
    return {"SOFTRDMA_CHAOS": f"seed=1,{kind}"}


def cases():
    yield "rping, IPv4", functools.partial(rping, far.HERE)
    yield "rping, IPv6", functools.partial(rping, far.HERE6)
    yield "rping, 65,000 bytes", functools.partial(rping, far.HERE, None, 65000)
    yield "ucmatose", functools.partial(pair, "ucmatose -p PORT -c 4", "ucmatose -p PORT -c 4 -s HERE")
    yield "ucmatose with migration", functools.partial(
        pair, "ucmatose -p PORT -c 4 -m", "ucmatose -p PORT -c 4 -m -s HERE")
    yield "rdma_client", functools.partial(pair, "rdma_server -p PORT", "rdma_client -s HERE -p PORT")
    yield "udaddy, IPv4", functools.partial(datagrams, far.HERE)
    yield "udaddy, IPv6", functools.partial(datagrams, far.HERE6, None, "-b ::")
    yield "udaddy, 4 queue pairs", functools.partial(datagrams, far.HERE, None, "-c 4")
    yield "no program resolves: unreachable", no_service
    for test in "ib_send_lat", "ib_write_bw -q 2", "ib_read_bw", "ib_atomic_bw":
        line = f"{test} -R -F -n 100 -p PORT"
        yield f"{test} -R", functools.partial(pair, line, line + " HERE")
    for kind in "drop=10", "dup=10", "swap=10", "corrupt=10":
        yield f"rping, {kind}", functools.partial(rping, far.HERE, lossy(kind))
        yield f"ucmatose, {kind}", functools.partial(
            pair, "ucmatose -p PORT -c 4", "ucmatose -p PORT -c 4 -s HERE", far.HERE, lossy(kind))
    yield "no program listens: rejected", no_listener
    yield "no RoCE there: unreachable at once", no_roce_there
    yield "no route: an address error", no_route
    yield "not allowed: an address error", not_allowed
    yield "the other side is killed", killed
    yield "an address that comes later", later_address
    yield "rblkd and rblk, MTU 1500", functools.partial(storage, 1500)
    yield "rblkd and rblk, MTU 9000", functools.partial(storage, 9000)
    yield "rblkd and rblk, fabric soft-roce", functools.partial(storage, 1500, "soft-roce")
    yield "a local address for RoCE that is none", bad_roce_address
    yield "tshark decodes a session of rblk", traced


# what rights could make a difference to: sockets, ports, addresses, and each kind of connection
WITHOUT_RIGHTS = ("rping, IPv4", "rping, IPv6", "udaddy, IPv4", "ib_write_bw -q 2 -R", "rping, drop=10",
                  "no RoCE there: unreachable at once", "no route: an address error", "the other side is killed",
                  "an address that comes later", "rblkd and rblk, MTU 9000")


if __name__ == "__main__":
    far.enter("--unprivileged" in sys.argv)
    Rig.other = far.OtherHost()
    try:
        sys.exit(run(far.permitted(cases(), WITHOUT_RIGHTS), lanes=1))
    finally:
        Rig.other.end()
