#!/usr/bin/python3
"""The target's machine loses power: a host is notified of writes that were acknowledged and never
flushed.

A boot id of our own stands for the kernel's: killing rblkd is a loss of power if it changes,
and a mere crash if it does not.
"""

import os
import socket
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import (PATIENCE, RBLKCTL, Target, Volume, expect, expect_equal, find_key, injected, rblk,  # noqa: E402
                     run_cases, wait_until)
from nbd_server import EIO, FLUSH, READ, WRITE, Raw  # noqa: E402

BLOCK = 4096
LOST = "the target has lost power"


def client(volume):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(volume.socket)
    sock.settimeout(PATIENCE)
    return Raw(sock).go()


def boot(scratch, name):
    with open(scratch.file("boot_id"), "w", encoding="utf-8") as f:
        f.write(name + "\n")


def begin(scratch, extra=None):
    boot(scratch, "one")
    scratch.env["RBLKD_BOOT_ID_FILE"] = scratch.file("boot_id")
    os.makedirs(scratch.file("kept"), exist_ok=True)
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"],
                    extra=f"state_directory: {scratch.file('kept')}" if extra is None else extra)
    volume = Volume(target, 1)
    raw = client(volume)
    write(raw)
    return target, volume, raw


def write(raw):
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")


def start_again(target, volume, raw):
    n = volume.reconnects()
    target.start()
    expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "a read that waited for the target")
    expect_equal(volume.reconnects(), n + 1, "reconnects")


def end(target, volume, raw):
    raw.close()
    volume.detach()
    target.stop()


def expect_no_report(volume, raw):
    expect(LOST not in volume.status()["last_error"]["message"], volume.status())
    expect_equal(raw.call(FLUSH)[0], 0, "flush")


def counts(target):
    subsystem = target.list("subsystems")["subsystems"][0]
    return subsystem["unsafe_shutdowns"], subsystem["crashes"]


def power_is_lost(scratch):
    target, volume, raw = begin(scratch)
    target.kill()
    boot(scratch, "two")
    start_again(target, volume, raw)
    expect_equal(counts(target), (1, 0), "unsafe shutdowns and crashes")
    error = volume.status()["last_error"]
    expect(LOST in error["message"] and "file system" in error["hint"], error)
    expect(LOST in rblk(scratch, "status", volume.name).stdout, "rblk status")
    other = client(volume)
    expect_equal(other.call(FLUSH)[0], EIO, "the next flush, of whichever client")
    expect_equal(raw.call(FLUSH)[0], 0, "the flush after it")
    expect_equal(find_key(volume.status(), "io_errors"), 1, "I/O errors")
    other.close()
    end(target, volume, raw)


def power_is_lost_when_all_was_flushed(scratch):
    target, volume, raw = begin(scratch)
    expect_equal(raw.call(FLUSH)[0], 0, "flush")
    target.kill()
    boot(scratch, "two")
    start_again(target, volume, raw)
    expect_equal(counts(target), (1, 0), "unsafe shutdowns and crashes")
    expect_no_report(volume, raw)
    end(target, volume, raw)


def rblkd_is_killed(scratch):
    target, volume, raw = begin(scratch)
    for n in (1, 2):
        target.kill()
        start_again(target, volume, raw)
        expect_equal(counts(target), (0, n), "unsafe shutdowns and crashes")
    expect_no_report(volume, raw)
    end(target, volume, raw)


def machine_is_restarted_in_order(scratch):
    target, volume, raw = begin(scratch)
    target.stop()
    boot(scratch, "two")
    start_again(target, volume, raw)
    expect_equal(counts(target), (0, 0), "unsafe shutdowns and crashes")
    expect_no_report(volume, raw)
    end(target, volume, raw)


def nothing_is_kept(scratch):
    """Without a state directory a loss of power looks like a restart."""
    target, volume, raw = begin(scratch, "")
    target.kill()
    boot(scratch, "two")
    start_again(target, volume, raw)
    expect_no_report(volume, raw)
    end(target, volume, raw)


def the_last_sync_fails(scratch):
    """A sync that fails at the end is an error, and hosts are notified as of a loss of power."""
    target, volume, raw = begin(scratch)
    with injected(target, "fdatasync:error=EIO"):
        target.stop(status=1)
    log = target.read_log()
    expect("last sync failed: Input/output error" in log and "disk.img cannot be synced" in log, log)
    expect("stopped" not in log, log)
    start_again(target, volume, raw)
    expect_equal(counts(target), (1, 0), "unsafe shutdowns and crashes")
    expect_equal(raw.call(FLUSH)[0], EIO, "the next flush")
    expect_equal(raw.call(FLUSH)[0], 0, "the flush after it")
    end(target, volume, raw)


def the_last_sync_takes_long(scratch):
    target, volume, raw = begin(scratch)
    with injected(target, "fdatasync:delay_enter=600s"):
        target.process.terminate()
        wait_until(lambda: "0 of 1 stores are synced" in target.read_log(), "progress in the log")
        expect("disk.img is not yet" in target.read_log(), target.read_log())
        expect_equal(target.process.poll(), None, "rblkd, while it syncs")
    expect_equal(target.process.wait(PATIENCE), 0, "exit status of rblkd")
    start_again(target, volume, raw)
    expect_equal(counts(target), (0, 0), "unsafe shutdowns and crashes")
    end(target, volume, raw)


def a_second_signal_ends_the_last_sync(scratch):
    target, volume, raw = begin(scratch)
    with injected(target, "fdatasync:delay_enter=600s") as strace:
        target.process.terminate()
        wait_until(lambda: "stores are synced" in target.read_log(), "progress in the log")
        target.process.terminate()
        wait_until(lambda: "stopping at once" in target.read_log(), "the second signal")
        strace.kill()  # in order it waits for the delayed thread, which waits for it
    expect_equal(target.process.wait(PATIENCE), 1, "exit status of rblkd")
    start_again(target, volume, raw)
    expect_equal(counts(target), (0, 1), "unsafe shutdowns and crashes")
    end(target, volume, raw)


def apply(target, before, after):
    """A change of the file, and `rblkctl apply`, which is under way."""
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    expect(before in text, text)
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text.replace(before, after))
    return subprocess.Popen([RBLKCTL, "apply", "--socket", target.control], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def finish(process):
    said = process.communicate(timeout=PATIENCE)[0]
    expect_equal(process.returncode, 0, "exit status of apply: " + said)


def begin_to_remove(scratch):
    """Returns what removes the namespace, and what adds it again."""
    target, volume, raw = begin(scratch)
    raw.close()
    volume.detach()
    there = f"    namespaces:\n      - {{nsid: 1, file: {scratch.file('disk.img')}}}\n"
    return target, (there, "    namespaces: []\n"), ("    namespaces: []\n", there)


def a_removed_store_cannot_be_synced(scratch):
    """Its hosts cannot flush it any more: rblkd does, and what is lost is a loss of power to them."""
    target, remove, add = begin_to_remove(scratch)
    with injected(target, "fdatasync:error=EIO"):
        finish(apply(target, *remove))
        wait_until(lambda: "disk.img cannot be synced" in target.read_log(), "the error in the log")
    expect("last sync failed: Input/output error" in target.read_log(), target.read_log())
    finish(apply(target, *add))
    target.stop()
    target.start()
    expect_equal(counts(target), (1, 0), "unsafe shutdowns and crashes")
    target.stop()


def a_removed_store_is_added_while_it_is_synced(scratch):
    target, remove, add = begin_to_remove(scratch)
    with injected(target, "fdatasync:delay_enter=600s"):
        finish(apply(target, *remove))
        wait_until(lambda: "disk.img is not synced yet" in target.read_log(), "progress in the log")
        adding = apply(target, *add)
        expect_equal(target.list("namespaces")["namespaces"], [], "namespaces meanwhile")
        expect_equal(adding.poll(), None, "apply, while the store is synced")
    finish(adding)
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(READ, 0, BLOCK), (0, b"x" * BLOCK), "what was written before")
    end(target, volume, raw)


def rblkd_stops_while_a_removed_store_is_synced(scratch):
    target, remove, _ = begin_to_remove(scratch)
    with injected(target, "fdatasync:delay_enter=600s"):
        finish(apply(target, *remove))
        target.process.terminate()
        wait_until(lambda: "disk.img is not synced yet" in target.read_log(), "progress in the log")
        expect_equal(target.process.poll(), None, "rblkd, while it syncs")
    expect_equal(target.process.wait(PATIENCE), 0, "exit status of rblkd")
    expect("stopped" in target.read_log(), target.read_log())


CASES = (power_is_lost, power_is_lost_when_all_was_flushed, rblkd_is_killed, machine_is_restarted_in_order,
         nothing_is_kept, the_last_sync_fails, the_last_sync_takes_long, a_second_signal_ends_the_last_sync,
         a_removed_store_cannot_be_synced, a_removed_store_is_added_while_it_is_synced,
         rblkd_stops_while_a_removed_store_is_synced)
run_cases([(case.__name__.replace("_", " "), case) for case in CASES
           if len(sys.argv) < 2 or sys.argv[1] in case.__name__])
