#!/usr/bin/python3
"""rblk proves that its earlier associations are over before it repeats writes: after rblkd was killed,
and after its own process was, which leaves them in a file."""

import os
import signal
import socket
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import (PATIENCE, Target, Volume, expect, expect_equal, rblk, run_cases, wait_until)  # noqa: E402
from nbd_server import READ, WRITE, Raw  # noqa: E402

BLOCK = 4096


def client(volume):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(volume.socket)
    sock.settimeout(PATIENCE)
    return Raw(sock).go()


def write_and_read(volume, byte):
    raw = client(volume)
    data = bytes([byte]) * BLOCK
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=data)[0], 0, "the write's error")
    expect_equal(raw.call(READ, 0, BLOCK), (0, data), "what is read back")
    raw.sock.close()


def wait_proof(volume, n):
    def is_proven():
        fencing = volume.status()["fencing"]
        return fencing["state"] == "proven" and fencing["proven_by"]["resets"] >= n

    wait_until(is_proven, f"{n} proofs by reset")


def state_file(volume):
    return volume.socket.replace(".nbd", ".fence")


def killed_target(scratch):
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    volume.wait_live()
    expect_equal(volume.status()["fencing"]["state"], "none", "fencing at first")
    write_and_read(volume, 1)
    for i in range(2):
        target.kill()
        target.start()
        write_and_read(volume, 2 + i)
        wait_proof(volume, i + 1)
    text = rblk(scratch, "status", volume.name).stdout
    expect("fencing         proven (by reset)" in text, f"rblk status shows no fencing:\n{text}")
    volume.detach()
    target.stop()


def killed_volume(scratch):
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    for i in range(3):
        write_and_read(volume, 1 + i)
        expect(os.path.exists(state_file(volume)), "no file names the association")
        os.kill(volume.pid(), signal.SIGKILL)
        wait_until(lambda: "v1" not in rblk(scratch, "list").stdout, "the process is gone")
        volume = Volume(target, 1)
        write_and_read(volume, 9)
        wait_proof(volume, 1)
    volume.detach()
    expect(not os.path.exists(state_file(volume)), "the file stays after an orderly end")
    target.stop()


def without_proof(scratch):
    """--fence=off: neither asked for nor kept in a file that a successor reads."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB, uuid: 9a25b5e0-23ee-4d5a-b1f5-b2a5c0e5a001"])
    volume = Volume(target, 1, None, "--fence", "off")
    write_and_read(volume, 1)
    os.kill(volume.pid(), signal.SIGKILL)
    wait_until(lambda: "v1" not in rblk(scratch, "list").stdout, "the process is gone")
    volume = Volume(target, 1, None, "--fence", "off")
    write_and_read(volume, 2)
    expect_equal(volume.status()["fencing"]["state"], "none", "fencing")
    volume.detach()
    target.stop()


run_cases([
    ("a killed rblkd: the new one proves that the old association is over", killed_target),
    ("a killed volume process: its successor proves it before it writes", killed_volume),
    ("--fence=off", without_proof),
])
