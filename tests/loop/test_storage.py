#!/usr/bin/python3
"""Stores fail: no space, a full queue, a failed flush. Only the affected command fails, no status
and no message is false, and all works again when the cause is gone."""

import os
import sys
from contextlib import contextmanager

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, RBLKCTL, VERIFY, Target, Volume, expect, expect_equal, fio, injected, run,  # noqa: E402
                     run_cases)

MIB = 1 << 20
FAILED, PARTIAL = 1, 6


def n_injected(scratch):
    with open(scratch.file("strace"), encoding="utf-8", errors="replace") as f:
        return f.read().count("(INJECTED)")


@contextmanager
def mounted(scratch, kind, *options, what="none"):
    path = scratch.file("mnt")
    os.mkdir(path)
    run("mount", "-t", kind, *options, what, path)
    try:
        yield path
    finally:
        run("umount", "-l", path)


def nbdsh(volume, *lines, check=True):
    return run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, *(x for line in lines for x in ("-c", line)), check=check)


def queue_full(scratch):
    """io_submit has no room (EAGAIN), or accepts nothing, again and again: nothing is lost."""
    image = scratch.make_file("disk.img", 64 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    for fault in ("io_submit:error=EAGAIN:when=5+7", "io_submit:retval=0:when=3+5"):
        with injected(target, fault):
            fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k-64k", "--iodepth=64", "--size=32m",
                *VERIFY)
        expect(n_injected(scratch) > 10, f"only {n_injected(scratch)} faults")
    volume.detach()
    target.stop()


def refused_submission(scratch):
    """io_submit fails (EIO): those commands fail, the connection and all others live."""
    image = scratch.make_file("disk.img", 16 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    with injected(target, "io_submit:error=EIO:when=2+2"):
        done = nbdsh(volume, "n = 0\n"
                     "for i in range(40):\n"
                     "    try:\n"
                     "        h.pwrite(bytes([i + 1]) * 4096, i * 4096)\n"
                     "    except nbd.Error as e:\n"
                     "        assert e.errno == 'EIO', e.errno\n"
                     "        n += 1\n"
                     "assert 5 <= n <= 35, n\n")
    expect_equal(done.returncode, 0, done.stderr)
    nbdsh(volume, "h.pwrite(b'x' * 4096, 0); h.flush(); assert h.pread(4096, 0) == b'x' * 4096")
    volume.detach()
    target.stop()


def no_room(scratch):
    """A sparse file on a full file system: writes fail with ENOSPC, reads do not, and free space
    helps."""
    with mounted(scratch, "tmpfs", "-o", "size=8m") as mnt:
        scratch.make_file("mnt/disk.img", 32 * MIB)
        target = Target(scratch, [f"nsid: 1, file: {mnt}/disk.img"])
        volume = Volume(target, 1)
        nbdsh(volume, "h.pwrite(b'a' * 1048576, 0)",
              "h.pwrite(b'b' * 1048576, 20 << 20)",
              "e = None\n"
              "try:\n"
              "    for i in range(2, 16):\n"
              "        h.pwrite(b'c' * 1048576, i << 20)\n"
              "except nbd.Error as error:\n"
              "    e = error.errno\n"
              "assert e == 'ENOSPC', e\n",
              "assert h.pread(1048576, 0) == b'a' * 1048576",
              "assert h.pread(1048576, 20 << 20) == b'b' * 1048576",
              "h.trim(6 << 20, 2 << 20); h.pwrite(b'd' * 1048576, 25 << 20); h.flush()",
              "assert h.pread(1048576, 25 << 20) == b'd' * 1048576")
        expect_equal(target.status()["state"], "degraded", "state")
        volume.detach()
        target.stop()


def failed_flush(scratch):
    """After a failed flush no later flush may succeed, until rblkd is restarted."""
    # With data in the journal ext4 has no O_DIRECT: a flush is fdatasync.
    run("mkfs.ext4", "-q", "-F", scratch.make_file("fs.img", 64 * MIB))
    with mounted(scratch, "ext4", "-o", "loop,data=journal", what=scratch.file("fs.img")) as mnt:
        scratch.make_file("mnt/disk.img", 16 * MIB)
        target = Target(scratch, [f"nsid: 1, file: {mnt}/disk.img", f"nsid: 2, ram: 16MiB, {LASTING}"])
        volume, other = Volume(target, 1), Volume(target, 2)
        fails = ("for call in (h.flush, lambda: h.pwrite(bytes(4096), 0)):\n"
                 "    try:\n"
                 "        call()\n"
                 "        assert False, 'success'\n"
                 "    except nbd.Error as e:\n"
                 "        assert e.errno == 'EIO', e.errno\n")
        nbdsh(volume, "h.pwrite(b'a' * 4096, 4096); h.flush()")
        with injected(target, "fdatasync:error=EIO"):
            nbdsh(volume, "h.pwrite(b'b' * 4096, 8192)", fails)
        nbdsh(volume, fails, "assert h.pread(4096, 4096) == b'a' * 4096")
        nbdsh(other, "h.pwrite(b'c' * 4096, 0); h.flush()")
        expect_equal(target.status_code(), PARTIAL, "exit status of rblkctl status")
        states = {n["nsid"]: n["state"] for n in target.list("namespaces")["namespaces"]}
        expect_equal(states, {1: "failed", 2: "ok"}, "states")
        expect("sync failed" in target.read_log(), "nothing in the log")
        done = run(RBLKCTL, "upgrade", "--socket", target.control, check=False, env=scratch.env)
        expect("has failed: look at its contents" in done.stderr, f"a new process would forget it: {done.stderr}")
        target.stop(FAILED)  # for what could not be synced
        target.start()
        nbdsh(volume, "h.pwrite(b'd' * 4096, 0); h.flush()")
        volume.detach()
        other.detach()
        target.stop()


def status_code(target):
    return run(RBLKCTL, "--socket", target.control, "status", check=False).returncode


Target.status_code = status_code

CASES = [
    ("the kernel's queue is full", queue_full),
    ("submissions are refused", refused_submission),
    ("no room on the file system", no_room),
    ("a flush fails", failed_flush),
]

if __name__ == "__main__":
    run_cases(CASES)
