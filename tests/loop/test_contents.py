#!/usr/bin/python3
"""Namespaces whose contents were replaced: a volume must not continue as if nothing had happened.
"""

import os
import re
import socket
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import (LASTING, NQN, PATIENCE, RBLKCTL, Target, Volume, expect, expect_equal, find_key,  # noqa: E402
                     rblk, run, run_cases, wait_until)
from nbd_server import EIO, FLUSH, READ, WRITE, Raw  # noqa: E402

BLOCK = 4096
UNREACHABLE, DENIED = 7, 8
LINE = "      - {nsid: 1, %s}\n"


def client(volume):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(volume.socket)
    sock.settimeout(PATIENCE)
    return Raw(sock).go()


def apply(target, *changes):
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    for old, new in changes:
        expect(old in text, f"{old} is in the file")
        text = text.replace(old, new)
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text)
    return run(RBLKCTL, "apply", "--socket", target.control, env=target.scratch.env)


def replace(target, volume, old, new):
    """The namespace is removed, and another store appears under its NSID."""
    apply(target, (LINE % old, ""), ("    namespaces:\n", "    namespaces: []\n"))
    wait_until(lambda: volume.status()["state"] == "gone", "the volume has noticed")
    apply(target, ("    namespaces: []\n", "    namespaces:\n" + LINE % new))


def expect_other_contents(volume, raw):
    wait_until(lambda: volume.status()["state"] == "failed", "the volume stops")
    error = volume.status()["last_error"]
    expect(re.search("contents of namespace 1 .* not those that were attached", error["message"]), error)
    expect("attach" in error["hint"], error)
    expect_equal(raw.call(READ, 0, BLOCK)[0], EIO, "a read")
    raw.close()


def memory_after_a_restart(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    expect_equal(raw.call(FLUSH)[0], 0, "flush")
    target.kill()
    target.start()
    expect_other_contents(volume, raw)
    rblk(scratch, "detach", volume.name, "--force")
    again = Volume(target, 1)
    raw = client(again)
    expect_equal(raw.call(READ, 0, BLOCK), (0, bytes(BLOCK)), "what a volume that is attached again reads")
    raw.close()
    again.detach()
    target.stop()


def memory_that_lasts(scratch):
    """By a fixed uuid the administrator declares that hosts may continue with other contents."""
    target = Target(scratch, [f"nsid: 1, ram: 16MiB, {LASTING}"])
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    target.kill()
    target.start()
    expect_equal(raw.call(READ, 0, BLOCK), (0, bytes(BLOCK)), "read")
    raw.close()
    volume.detach()
    target.stop()


def memory_that_was_removed(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    replace(target, volume, "ram: 16MiB", "ram: 16MiB")
    expect_other_contents(volume, raw)
    rblk(scratch, "detach", volume.name, "--force")
    target.stop()


def flush_is_always_sent(scratch):
    """There was no cache when the volume was attached; then the same namespace is in a file."""
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, ram: 16MiB, {LASTING}"])
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(FLUSH)[0], 0, "flush")
    replace(target, volume, f"ram: 16MiB, {LASTING}", f"file: {image}, {LASTING}")
    volume.wait_live()
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    before = find_key(target.list("namespaces"), "flushes")
    expect_equal(raw.call(FLUSH)[0], 0, "flush")
    expect_equal(find_key(target.list("namespaces"), "flushes"), before + 1, "flushes that came to the target")
    raw.close()
    volume.detach()
    target.stop()


def attach(scratch, volume, *options):
    return rblk(scratch, "attach", f"{NQN}@{volume.target.address}", "--frontend", "socket", "--name", volume.name,
                *options, check=False)


def denied(scratch, *options):
    """A host that may not use the subsystem any more; both of its volumes, and a client with a
    waiting write."""
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1, None, *options)
    raw = client(volume)
    expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    apply(target, ("allow_any_host: true", "allow_hosts: ['nqn.2026-01.org.example:other']"))
    return target, volume, raw


def let_in(target):
    apply(target, ("allow_hosts: ['nqn.2026-01.org.example:other']", "allow_any_host: true"))


def denial_is_waited_for(scratch):
    """Errors in the target's file are usually corrected: I/O waits, as in any outage."""
    target, volume, raw = denied(scratch)
    wait_until(lambda: volume.status()["state"] == "denied", "the volume has noticed")
    raw.request(WRITE, 0, BLOCK, payload=b"x" * BLOCK)
    wait_until(lambda: find_key(volume.status(), "held") == 1, "the write is held")
    expect("refuses host" in volume.status()["last_error"]["message"], volume.status())
    expect(volume.status()["gives_up_in_s"] > 0, "it says until when")
    expect("gives up in" in rblk(scratch, "list").stdout, "list says so, too")
    done = attach(scratch, volume)
    expect_equal(done.returncode, 0, done.stderr)
    expect(f"rblk attach: note: {volume.name} is denied: target refuses host" in done.stderr, done.stderr)
    expect_equal(rblk(scratch, "detach", volume.name, check=False).returncode, UNREACHABLE, "detach cannot flush")
    let_in(target)
    expect_equal(raw.recv_simple()[1], 0, "the write")
    raw.close()
    volume.detach()
    target.stop()


def subsystem_is_waited_for(scratch):
    """rblkd is started with a file that lacks the namespace, and then with the right one."""
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    raw = client(volume)
    with open(target.config, encoding="utf-8") as f:
        right = f.read()
    for name, state in (("nqn.2026-01.org.example:else", "denied"), (None, "gone")):
        target.kill()
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(right.replace(NQN, name) if name else right.replace("nsid: 1", "nsid: 2"))
        target.start()
        wait_until(lambda: volume.status()["state"] == state, f"the volume is {state}")
        raw.request(WRITE, 0, BLOCK, payload=b"x" * BLOCK)
        target.kill()
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(right)
        target.start()
        expect_equal(raw.recv_simple()[1], 0, "the write")
    raw.close()
    volume.detach()
    target.stop()


def denial_can_be_the_end(scratch):
    """--fail-on-denial; and rblk attach revives the volume in place when the target admits it
    again."""
    target, volume, raw = denied(scratch, "--fail-on-denial")
    wait_until(lambda: volume.status()["state"] == "failed", "the volume gives up")
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], EIO, "write")
    done = attach(scratch, volume, "--fail-on-denial")
    expect_equal(done.returncode, DENIED, done.stderr)
    expect("refuses host" in done.stderr and not done.stdout, done.stderr)
    let_in(target)
    done = attach(scratch, volume, "--fail-on-denial")
    expect_equal((done.returncode, "paths 1/1" in done.stdout), (0, True), done.stdout + done.stderr)
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    expect_block(raw, b"x" * BLOCK)
    raw.close()
    volume.detach()
    target.stop()


def failed_volume_is_opened_again(scratch):
    """ctrl_loss_tmo has passed; attach tries again, and reports why it fails."""
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk.img', 16 << 20)}"])
    volume = Volume(target, 1, None, "--ctrl-loss-tmo", "1s")
    raw = client(volume)
    expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    target.kill()
    wait_until(lambda: volume.status()["state"] == "failed", "the volume gives up")
    done = attach(scratch, volume, "--ctrl-loss-tmo", "1s")
    expect_equal((done.returncode, done.stdout), (UNREACHABLE, ""), done.stderr)
    target.start()
    expect_equal(attach(scratch, volume, "--ctrl-loss-tmo", "1s").returncode, 0, "exit status")
    expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    raw.close()
    volume.detach()
    target.stop()


def namespace_that_comes_back(scratch):
    """Removed while in use: I/O waits; the same namespace revives the volume."""
    image = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}", "nsid: 2, ram: 1MiB"])
    volume = Volume(target, 1)
    raw = client(volume)
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
    apply(target, (LINE % f"file: {image}", ""))
    raw.request(WRITE, BLOCK, BLOCK, payload=b"y" * BLOCK)
    wait_until(lambda: volume.status()["state"] == "gone", "the volume has noticed")
    expect("namespace 1" in volume.status()["last_error"]["message"], volume.status())
    expect("gone" in rblk(scratch, "list").stdout, "list")
    expect("namespace 1" in rblk(scratch, "status", volume.name).stdout, "status")
    apply(target, ("    namespaces:\n", "    namespaces:\n" + LINE % f"file: {image}"))
    expect_equal(raw.recv_simple()[1], 0, "the write that waited")
    expect_block(raw, b"x" * BLOCK)
    raw.close()
    volume.detach()
    target.stop()


def expect_block(raw, wanted):
    expect_equal(raw.call(READ, 0, BLOCK), (0, wanted), "the block")


def nothing_to_flush(scratch):
    """A volume whose writes are flushed, or that has none, needs no target to be detached; another one does."""
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk.img', 16 << 20)}"])
    for writes, flushes in ((False, False), (True, True), (True, False)):
        volume = Volume(target, 1)
        raw = client(volume)
        if writes:
            expect_equal(raw.call(WRITE, 0, BLOCK, payload=b"x" * BLOCK)[0], 0, "write")
        if flushes:
            expect_equal(raw.call(FLUSH)[0], 0, "flush")
        raw.close()
        is_unflushed = writes and not flushes
        expect_equal(volume.status()["unflushed"], is_unflushed, f"writes {writes}, flushes {flushes}")
        target.kill()
        wait_until(lambda: volume.status()["state"] == "reconnecting", "the volume has noticed")
        expect(volume.status()["last_error"]["age_s"] >= 0, "age of the last error")
        done = rblk(scratch, "detach", volume.name, check=False)
        expect_equal(done.returncode, UNREACHABLE if is_unflushed else 0, done.stderr)
        log = os.path.join(scratch.env["RBLK_RUN_DIR"], "volumes", f"{volume.name}.log")
        if not is_unflushed:
            with open(log, encoding="utf-8") as f:
                expect("did not answer for 10 s" not in f.read(), "it waited for the target")
        target.start()
    wait_until(lambda: volume.status()["state"] == "live", "the volume is live again")
    wait_until(lambda: " ago)" in rblk(scratch, "status", volume.name).stdout, "the last error has an age")
    volume.detach()
    target.stop()


CASES = (nothing_to_flush, denial_is_waited_for, subsystem_is_waited_for, denial_can_be_the_end, failed_volume_is_opened_again,
         namespace_that_comes_back, memory_after_a_restart, memory_that_lasts, memory_that_was_removed, flush_is_always_sent)
run_cases([(case.__name__.replace("_", " "), case) for case in CASES
           if len(sys.argv) < 2 or sys.argv[1] in case.__name__])
