#!/usr/bin/python3
"""Processes die, stop and come back while fio verifies: no error reaches it, nothing is lost."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (IS_SANITIZED, VERIFY, Failure, Target, Volume, expect,  # noqa: E402
                     expect_equal, find_key, fio, rblk, run, run_cases, stand_still, start_fio, wait_until)

LOAD = ("--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=64m", "--time_based=0", *VERIFY)
# slow enough that all events of a case fall into it: 16384 writes, read back one after the other
SLOW = (*LOAD, "--rate_iops=2000")


def finish(process, what):
    output, _ = process.communicate(timeout=600)
    expect_equal(process.returncode, 0, f"{what}: fio says\n{output[-2000:]}\nexit status")


def connections(target):
    return find_key(target.list("connections"), "connections") or []


def wait_writes(target, n):
    """Waits until this rblkd has done so many."""
    wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] >= n, f"{n} writes")


def kill_target_under_load(scratch):
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    process = start_fio(scratch, volume.uri, *SLOW)
    for i in range(3):
        wait_writes(target, 1000)
        expect(process.poll() is None, "fio ended before the kill")
        target.kill()
        target.start()
        wait_until(lambda: volume.reconnects() > i, "the volume reconnects")
    finish(process, "kill -9 of rblkd")
    volume.detach()
    target.stop()


def long_outage(scratch):
    """The target stays away for some seconds: I/O waits."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    process = start_fio(scratch, volume.uri, *SLOW)
    wait_writes(target, 1000)
    target.kill()
    time.sleep(6)
    expect(process.poll() is None, "fio ended while the target was away")
    target.start()
    finish(process, "outage of 6 s")
    volume.detach()
    target.stop()


def state_but_live(volume):
    state = volume.status()["state"]
    return None if state == "live" else state


def freeze(target, volume):
    """Stops rblkd until the volume has noticed. Not while rblkd delivers, in the software
    provider: there it holds a lock that the volume's process waits for, which then cannot
    answer either."""
    for _ in range(20):
        stand_still(target.process.pid)
        state = wait_until(lambda: state_but_live(volume), "the volume has noticed")
        if state == "reconnecting":
            return
        expect_equal(state, "unresponsive", "state of the volume")
        target.process.send_signal(signal.SIGCONT)
        volume.wait_live()
    raise Failure("rblkd was stopped while it delivered, 20 times")


def frozen_target(scratch):
    """SIGSTOP: connections live on, only Keep Alive can notice."""
    target = Target(scratch, ["nsid: 1, ram: 64MiB"])
    volume = Volume(target, 1, None, "--keep-alive", "2s")
    process = start_fio(scratch, volume.uri, *SLOW)
    wait_writes(target, 1000)
    freeze(target, volume)
    target.process.send_signal(signal.SIGCONT)
    finish(process, "SIGSTOP of rblkd")
    expect(volume.reconnects() >= 1, "the volume did not reconnect")
    volume.detach()
    target.stop()


def ctrl_loss(scratch):
    """Only after ctrl_loss_tmo do errors reach the client."""
    target = Target(scratch, ["nsid: 1, ram: 64MiB"])
    volume = Volume(target, 1, None, "--ctrl-loss-tmo", "4s", "--reconnect-delay", "1s")
    process = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=4",
                        "--size=64m", "--time_based=1", "--runtime=300")
    wait_writes(target, 100)
    start = time.monotonic()
    target.kill()
    process.communicate(timeout=600)
    lasted = time.monotonic() - start
    expect(process.returncode != 0, "fio saw no error although the target never came back")
    expect(3.5 <= lasted < 60, f"the error came after {lasted:.1f} s, ctrl_loss_tmo is 4 s")
    rblk(scratch, "detach", volume.name, "--force", check=False)


def kill_volume_process(scratch):
    """kill -9 of the volume process frees everything in rblkd."""
    target = Target(scratch, ["nsid: 1, ram: 64MiB"])
    volume = Volume(target, 1)
    process = start_fio(scratch, volume.uri, *LOAD, "--numjobs=2")
    wait_until(lambda: len(connections(target)) >= 2, "connections are listed")
    os.kill(volume.pid(), signal.SIGKILL)
    process.communicate(timeout=600)
    wait_until(lambda: not connections(target), "rblkd freed the connections")
    # and the next host is served
    again = Volume(target, 1, "again")
    fio(scratch, again.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=4m", *VERIFY)
    again.detach()
    target.stop()


def storm(scratch):
    """Attach, load, kill, many times: descriptors and memory of rblkd do not grow."""
    target = Target(scratch, ["nsid: 1, ram: 64MiB"])

    def figures():
        """Open descriptors, and KiB of private memory: the share of a library's pages depends on
        other processes."""
        wait_until(lambda: not connections(target), "connections are gone")
        with open(f"/proc/{target.process.pid}/smaps_rollup", encoding="utf-8") as f:
            own = sum(int(line.split()[1]) for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        return len(os.listdir(f"/proc/{target.process.pid}/fd")), own

    def once(i):
        volume = Volume(target, 1, f"s{i}")
        fio(scratch, volume.uri, "--rw=randrw", "--bs=8k", "--iodepth=16", "--size=1m")
        if i % 2:
            os.kill(volume.pid(), signal.SIGKILL)
        else:
            volume.detach()

    for i in range(4):
        once(i)
    fds, own = figures()
    rounds = 6 if IS_SANITIZED else 16
    for i in range(4, 4 + rounds):
        once(i)
    fds_after, own_after = figures()
    # one less: a connection of the first rounds was closed late
    expect(fds_after <= fds, f"a leak: rblkd has {fds_after} open descriptors, after 4 rounds it had {fds}")
    # sanitizers keep freed memory in quarantine
    expect(IS_SANITIZED or own_after < own + 1024, f"a leak: rblkd grew from {own} to {own_after} KiB")
    target.stop()


def restart_in_order(scratch):
    """SIGTERM of the target under load, and a new one: drains, then the volume reconnects."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    process = start_fio(scratch, volume.uri, *SLOW)
    wait_writes(target, 1000)
    target.stop()
    target.start()
    finish(process, "SIGTERM and restart of rblkd")
    volume.detach()
    target.stop()


def volume_stops_in_order(scratch):
    target = Target(scratch, ["nsid: 1, ram: 64MiB"])
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=8m")
    pid = volume.pid()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the volume process ended")
    expect(not os.path.exists(volume.socket), "the NBD socket is still there")
    expect_equal(run("true").returncode, 0, "true")
    listed = rblk(scratch, "list", "-o", "json").stdout
    expect(volume.name not in listed, "the volume is still listed: " + listed)
    target.stop()


CASES = [
    ("kill -9 of rblkd under fio verify", kill_target_under_load),
    ("rblkd away for 6 s", long_outage),
    ("rblkd frozen: keep alive notices", frozen_target),
    ("rblkd restarted in order", restart_in_order),
    ("errors only after ctrl_loss_tmo", ctrl_loss),
    ("kill -9 of the volume process frees all in rblkd", kill_volume_process),
    ("SIGTERM of the volume process", volume_stops_in_order),
    ("attach and kill storm leaks nothing", storm),
]

if __name__ == "__main__":
    run_cases(CASES)
