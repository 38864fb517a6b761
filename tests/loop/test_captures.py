#!/usr/bin/python3
"""rblkctl capture and rblk capture: tshark decodes what they write, without a malformed packet, and finds
the commands that were sent, no more and no fewer; one capture at a time; nothing is left of a reader that
was killed."""

import collections
import json
import os
import signal
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (PATIENCE, RBLK, RBLKCTL, Target, Volume, ask, expect, expect_equal, run,  # noqa: E402
                     run_cases, wait_until)

OK, USAGE, NOT_FOUND, BUSY = 0, 2, 4, 5
BLOCK = 65536  # by keyed descriptors; the data of 4096 bytes is in the capsule
MESSAGES = ("CM: ConnectRequest", "CM: ConnectReply", "CM: ReadyToUse")


class TargetOf6(Target):
    """A target at an IPv6 address."""

    def __init__(self, scratch, namespaces):
        super().__init__(scratch, namespaces, listen="'::1'")

    @property
    def address(self):
        return f"[::1]:{self.port}"


class Capture:
    """A capture of rblkd, or of a volume, that runs until it is ended."""

    def __init__(self, target, volume=None, *options):
        self.target, self.scratch = target, target.scratch
        self.socket = volume.socket.removesuffix(".nbd") + ".sock" if volume else target.control
        self.command = [RBLK, "capture", volume.name] if volume else [RBLKCTL, "capture", "--socket", target.control]
        self.file = self.scratch.file(volume.name if volume else "rblkd") + ".pcapng"
        self.process = subprocess.Popen([*self.command, "-w", self.file, "-t", "1h", "-o", "json", *options],
                                        env=self.scratch.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.is_running() or self.process.poll() is not None, "the capture runs")

    def is_running(self):
        return ask(self.socket, "status")["capturing"]

    def another(self, *options):
        return run(*self.command, "-t", "1ms", *options, env=self.scratch.env, check=False)

    def result(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        expect_equal((self.process.returncode, err), (OK, ""), "end of the capture")
        return json.loads(out)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.result()

    def tshark(self, *arguments):
        done = subprocess.run(["tshark", "-r", self.file, "-o", f"nvme-rdma.subsystem_ports:{self.target.port}",
                               *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE)
        expect_equal(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def decoded(self):
        """How often each command, response and message occurs. Each packet is one of them, and is well formed."""
        bad = self.tshark("-Y", "_ws.malformed || _ws.expert.severity == error")
        lines = self.tshark("-T", "fields", "-e", "_ws.col.Info", "-e", "frame.time_epoch")
        bad += [line for line in lines if "alformed" in line or not ("NVMe" in line or line.startswith(MESSAGES))]
        expect(not bad, "malformed, or unknown:\n" + "\n".join(bad[:10]))
        times = [line.split("\t")[1] for line in lines]
        expect_equal(times, sorted(times), "times")
        found = collections.Counter(line.split("\t")[0].split("| ")[-1] for line in lines)
        for name, n in found.items():
            command = name.replace(" CQE for", "")
            expect_equal(found[command], n, f"commands and responses of {command}: {found}")
        return collections.Counter({name.split(" ", 1)[1]: n for name, n in found.items()
                                    if " CQE for " not in name})


def expect_icrcs(path):
    """Each ICRC is as a receiver computes it, with the fields that routers change set to ones."""
    with open(path, "rb") as f:
        data = f.read()
    at = n = 0
    while at < len(data):
        kind, size = (int.from_bytes(data[at + i:at + i + 4], sys.byteorder) for i in (0, 4))
        if kind == 6:
            length = int.from_bytes(data[at + 20:at + 24], sys.byteorder)
            frame = bytearray(data[at + 28 + 14:at + 28 + length])
            v4 = frame[0] >> 4 == 4
            udp = 20 if v4 else 40
            frame[0] |= 0 if v4 else 0x0f
            for i in (*((1, 8, 10, 11) if v4 else (1, 2, 3, 7)), udp + 6, udp + 7, udp + 12):
                frame[i] = 0xff
            expect_equal(frame[-4:].hex(), zlib.crc32(frame[:-4], zlib.crc32(b"\xff" * 8)).to_bytes(4, "little").hex(),
                         f"ICRC of packet {n + 1}")
            n += 1
        at += size
    return n


def work(volume):
    """40 + 7 Writes, 25 Reads, a Flush."""
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", f"for i in range(40): h.pwrite(bytes({BLOCK}), 0)",
        "-c", f"for i in range(25): h.pread({BLOCK}, 0)", "-c", "for i in range(7): h.pwrite(bytes(4096), 0)",
        "-c", "h.flush()")


def both_sides(scratch):
    """The volume's own view, and rblkd's, which has a second host besides."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"])
    volume = Volume(target, 1, None, "--queues", "1", "--keep-alive", "0")
    wait_until(lambda: volume.answer()["queues_live"], "its Connect is no part of the captures")
    of_target, of_volume = Capture(target), Capture(target, volume)
    work(volume)
    Volume(target, 2, None, "--queues", "1", "--keep-alive", "0").detach()
    seen = of_volume.end()
    expect_equal((seen["commands"], seen["admin_commands"], seen["dropped"], seen["connections"]), (73, 0, 0, 1),
                 "of the volume")
    found = of_volume.decoded()
    expect_equal((found["Write"], found["Read"], found["Flush"], found.total()), (47, 25, 1, 73 + len(MESSAGES)),
                 f"found in the volume's: {found}")
    expect_equal(expect_icrcs(of_volume.file), 2 * 73 + len(MESSAGES), "packets")
    seen = of_target.end()
    expect_equal((seen["dropped"], seen["connections"]), (0, 3), "of rblkd")
    found = of_target.decoded()
    expect_equal((found["Write"], found["Read"], found["Connect"], found["Identify Controller"]), (47, 25, 2, 1),
                 f"found in rblkd's: {found}")
    expect_equal(found.total(), seen["commands"] + 3 * len(MESSAGES), "commands")


def reconnected(scratch):
    """A connection that comes during the capture, with its admin queue, over IPv6."""
    target = TargetOf6(scratch, ["nsid: 1, file: " + scratch.make_file("disk", 1 << 20)])
    volume = Volume(target, 1, None, "--queues", "1", "--reconnect-delay", "100ms")
    of_volume = Capture(target, volume)
    target.kill()
    target.start()
    wait_until(lambda: volume.reconnects() and volume.answer()["queues_live"], "the volume's queue is live again")
    seen = of_volume.end()
    found = of_volume.decoded()
    expect(seen["connections"] >= 2 and found["Connect"] >= 2 and found["Identify Controller"] >= 1, f"found: {found}")
    expect_icrcs(of_volume.file)


def one_at_a_time(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    for capture in Capture(target), Capture(target, volume):
        file = scratch.file("another")
        done = capture.another("-w", file)
        expect_equal(done.returncode, BUSY, done.stderr)
        expect("error: a capture is running already\n" in done.stderr, done.stderr)
        expect(not os.path.exists(file), "a refused capture leaves a file")
        capture.process.kill()
        capture.process.communicate()
        wait_until(lambda: not capture.is_running(), "the capture ends after its reader")  # pylint: disable=W0640
        done = capture.another("-w", file)
        expect_equal(done.returncode, OK, done.stderr)
        expect("captured 0 commands of 0 connections" in done.stdout, done.stdout)
        os.remove(file)
        for options in ((), ("-w", "-", "-o", "json")):
            expect_equal(capture.another(*options).returncode, USAGE, f"exit status of {options}")
        done = capture.another("-w", scratch.file("none/file"))
        expect("No such file" in done.stderr and not capture.is_running(), done.stderr)
    expect_equal(run(RBLK, "capture", "none", "-w", file, env=scratch.env, check=False).returncode, NOT_FOUND, "no volume")


def counted(scratch):
    """It ends by itself after --count commands, and goes down a pipe."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    capture = Capture(target, volume, "--count", "30")
    work(volume)
    expect_equal(capture.result()["commands"], 30, "commands")
    expect_equal(capture.decoded().total(), 30 + len(MESSAGES), "decoded")
    piped = subprocess.run([*capture.command, "-w", "-", "-t", "1ms"], env=scratch.env, capture_output=True,
                           check=True, timeout=PATIENCE)
    expect(piped.stdout.startswith(b"\x0a\x0d\x0d\x0a") and b"captured 0 commands" in piped.stderr, piped)


if __name__ == "__main__":
    run_cases([
        ("tshark finds in both sides' captures what was sent", both_sides),
        ("a connection that comes during the capture", reconnected),
        ("one capture at a time; a reader that is killed leaves none", one_at_a_time),
        ("--count, and a pipe", counted),
    ])
