#!/usr/bin/python3
"""The RDMA device is removed and comes back: the programs release what uses it, and I/O resumes."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, VERIFY, Failure, Target, Volume, expect, expect_equal, find_key, fio,  # noqa: E402
                     run_cases, start_fio, wait_until, waits)

ROUNDS = 10


class Device:
    """The device of one process (softrdma(1), SOFTRDMA_CONTROL): the next one that is started."""

    def __init__(self, scratch, name):
        self.control = scratch.file(name + ".fabric")
        self.scratch = scratch
        self.set("")

    def __enter__(self):
        self.scratch.env["SOFTRDMA_CONTROL"] = self.control
        return self

    def __exit__(self, *_):
        del self.scratch.env["SOFTRDMA_CONTROL"]

    def set(self, text):
        with open(self.control + ".tmp", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.control + ".tmp", self.control)

    def state(self):
        with open(self.control + ".device", encoding="utf-8") as f:
            return f.read().strip()

    def remove(self, is_fatal=False):
        """Complete only when no object holds the device any more, as `rdma link delete`. Some
        drivers report it by IBV_EVENT_DEVICE_FATAL, rxe and siw do not."""
        self.set(f"remove={1 if is_fatal else 2}\n")
        try:
            wait_until(lambda: self.state() == "removed", "the device is removed")
        except Failure as failure:
            raise Failure(f"{failure}: {self.state()}") from None

    def bring_back(self):
        self.set("\n")
        wait_until(lambda: self.state() == "present", "the device is back")


class Load:
    """fio verifies without end; if it ends with an error, that is a failure."""

    def __init__(self, volume):
        self.volume = volume
        self.start()

    def start(self):
        self.process = start_fio(self.volume.scratch, self.volume.uri, "--rw=randwrite", "--bs=4k",
                                 "--iodepth=16", "--size=16m", "--rate_iops=400", *VERIFY)

    def finish(self):
        output, _ = self.process.communicate(timeout=600)
        expect_equal(self.process.returncode, 0, f"fio says\n{output[-2000:]}\nexit status")

    def look(self):
        if self.process.poll() is not None:
            self.finish()
            self.start()


def portal(target):
    return find_key(target.list("portals"), "portals")[0]


def n_fds(pid):
    """The count without eventfds, of which softrdma keeps some for each peer."""
    n = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            n += "eventfd" not in os.readlink(entry.path)
        except FileNotFoundError:
            pass  # a caller of the control socket has disconnected
    return n


@waits
def removed_from_target(scratch):
    image = scratch.make_file("disk.img", 64 << 20)
    with Device(scratch, "target") as device:
        target = Target(scratch, ["nsid: 1, ram: 16MiB", f"nsid: 2, file: {image}"])
    volumes = [Volume(target, 1), Volume(target, 2)]
    loads = [Load(volume) for volume in volumes]
    fds = []
    for i in range(ROUNDS):
        before = [volume.reconnects() for volume in volumes]
        device.remove(is_fatal=i % 2)
        expect_equal(portal(target)["state"], "waiting", "state of the portal")
        expect(portal(target)["device"] is None, "the portal names a device")
        device.bring_back()
        wait_until(lambda: portal(target)["state"] == "listening", "the portal listens")
        for volume, n in zip(volumes, before):
            wait_until(lambda: volume.reconnects() > n and volume.is_live(), f"{volume.name} is back")
        for load in loads:
            load.look()
        fds.append(n_fds(target.process.pid))
    for load in loads:
        load.finish()
    expect(max(fds) < min(fds) + ROUNDS / 2, f"open descriptors of rblkd after each round: {fds}")
    log = target.read_log()
    expect_equal(log.count("portal p: its RDMA device went away"), ROUNDS, "lines about going")
    expect_equal(log.count("portal p: listening on"), ROUNDS, "lines about coming")
    for volume in volumes:
        volume.detach()
    target.stop()


@waits
def removed_from_host(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    with Device(scratch, "host") as device:
        volume = Volume(target, 1)
    load = Load(volume)
    for i in range(ROUNDS):
        before = volume.reconnects()
        device.remove(is_fatal=i % 2)
        device.bring_back()
        wait_until(lambda: volume.reconnects() > before and volume.is_live(), "the volume is back")
        load.look()
    load.finish()
    volume.detach()
    target.stop()


@waits
def removed_while_reconnecting(scratch):
    """The host holds nothing of the device, so no event arrives: its next attempt to connect finds
    out."""
    target = Target(scratch, [f"nsid: 1, ram: 16MiB, {LASTING}"])
    with Device(scratch, "host") as device:
        volume = Volume(target, 1)
    target.kill()
    wait_until(lambda: not volume.is_live(), "the volume has noticed")
    device.remove()
    target.start()
    device.bring_back()
    wait_until(lambda: volume.is_live(), "the volume is back")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--size=4m", *VERIFY)
    volume.detach()
    target.stop()


@waits
def portal_at_every_address(scratch):
    with Device(scratch, "target") as device:
        target = Target(scratch, ["nsid: 1, ram: 16MiB"], listen="0.0.0.0")
    volume = Volume(target, 1)
    for i in range(3):
        before = volume.reconnects()
        device.remove(is_fatal=i % 2)
        expect_equal(portal(target)["state"], "listening", "state of the portal")
        device.bring_back()
        wait_until(lambda: volume.reconnects() > before and volume.is_live(), "the volume is back")
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--size=4m", *VERIFY)
    volume.detach()
    # and without any connection, when the connection manager raises no event
    device.remove(is_fatal=True)
    device.bring_back()
    Volume(target, 1, "again").detach()
    target.stop()


@waits
def stopped_without_device(scratch):
    """rblkd ends in order while its device is away."""
    with Device(scratch, "target") as device:
        target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    device.remove()
    target.stop()


run_cases([
    ("the target's device is removed under load, and comes back", removed_from_target),
    ("the host's device is removed under load, and comes back", removed_from_host),
    ("the host's device is removed while it tries to connect", removed_while_reconnecting),
    ("a portal at every address survives", portal_at_every_address),
    ("rblkd stops while its device is away", stopped_without_device),
])
