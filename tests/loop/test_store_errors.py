#!/usr/bin/python3
"""Each error of a store below rblkd is reported: the host gets the matching status, the log has
one complete line, it is counted by kind, and rblkctl status is degraded until an administrator
clears it. An error that may have lost acknowledged data is final until rblkd is restarted;
other errors are not."""

import os
import re
import sys
from contextlib import contextmanager

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, NQN, RBLK, RBLKCTL, Target, Volume, expect, expect_equal, injected, rblk,  # noqa: E402
                     run, run_cases, wait_until)

MIB = 1 << 20
OK, CONFIG, NOT_FOUND, PARTIAL = 0, 3, 4, 6
KINDS = ("read", "write", "flush", "discard", "no_space", "busy")
EIO = "Input/output error"
WRITE_FAULT, READ_ERROR = "Write Fault (status 2.80)", "Unrecovered Read Error (status 2.81)"


def ctl(target, *arguments, status=OK):
    done = run(RBLKCTL, *arguments, "--socket", target.control, check=False, env=target.scratch.env)
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}{done.stdout}")
    return done.stdout


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def nbdsh(volume, *lines):
    return run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, *(x for line in lines for x in ("-c", line)))


def fails(call, error="EIO"):
    return (f"try:\n    {call}\n    assert False, 'success'\n"
            f"except nbd.Error as e:\n    assert e.errno == '{error}', e.errno\n")


WRITE, FLUSH, READ = "h.pwrite(b'n' * 4096, 8192)", "h.flush()", "h.pread(4096, 8192)"
FUA = "h.pwrite(b'n' * 4096, 8192, nbd.CMD_FLAG_FUA)"


class Store:
    """A target with one file, its volume, and the expectations of both."""

    def __init__(self, scratch, path=None):
        self.path = path or scratch.make_file("disk.img", 16 * MIB)
        self.target = Target(scratch, [f"nsid: 1, file: {self.path}"])
        self.volume = Volume(self.target, 1)
        self.name = f"{NQN}/1"
        expect_equal(self.errors(), [], "errors at the start")

    def errors(self):
        return self.target.status()["errors"]

    def namespace(self):
        return self.target.list("namespaces")["namespaces"][0]

    def expect_heard(self, kind, operation, words, n_bytes=4096, state="degraded", status=None):
        """The last error is of that kind, and every interface that reports errors reports it."""
        block = self.namespace()["block_size"]
        host = self.volume.status()["hostnqn"]
        told = self.errors()
        expect_equal(len(told), 1, f"namespaces with errors: {told}")
        counts, last = told[0]["backend_errors"], told[0]["last_error"]
        expect_equal(sorted(counts), sorted(KINDS), "kinds")
        expect(counts[kind] >= 1, f"no error of kind {kind}: {counts}")
        expect_equal(sum(counts.values()), counts[kind], "errors of other kinds")
        expect_equal((told[0]["subsystem"], told[0]["nsid"], told[0]["path"], told[0]["state"]),
                     (NQN, 1, self.path, state), "which namespace")
        expect_equal((last["operation"], last["error"], last["host"]), (operation, words, host), "last error")
        expect_equal(last["blocks"] * block, n_bytes, "length")
        expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", last["time"]) and last["age_s"] < 3600, f"time: {last}")
        where = f" of {last['blocks']} blocks at LBA {last['lba']}" if n_bytes else ""
        line = f"namespace {self.name}, {self.path}: {operation}{where} failed: {words}; host {host}"
        expect(line in self.target.read_log(), f"'{line}' is not in the log:\n{self.target.read_log()}")
        expect_equal(self.target.status()["state"], "degraded", "state of rblkd")
        expect_equal(self.namespace()["state"], state, "state of the namespace")
        text = ctl(self.target, "status", status=PARTIAL)
        expect(words in text and last["time"] in text and host in text, text)
        expect(self.namespace()["last_error"] == last or self.namespace()["last_error"]["age_s"] > last["age_s"],
               "the list agrees")
        self.expect_host_heard(operation, status, n_bytes, block)
        return last

    def expect_host_heard(self, operation, status, n_bytes, block):
        """The volume reports it as well: its log, its status, and the list."""
        told = self.volume.status()
        last = told["last_io_error"]
        expect_equal((last["operation"], last["blocks"] * block, last["error"]), (operation, n_bytes, status), "of the volume")
        expect(told["io_errors"] >= 1 and told["io_errors"] == sum(told["io_errors_by_operation"].values()), str(told))
        expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", last["time"]) and last["age_s"] < 3600, f"time: {last}")
        where = f" of {last['blocks']} blocks at LBA {last['lba']}" if n_bytes else ""
        log = read(self.volume.scratch.file("run/volumes/v1.log"))
        expect(f"{self.name}: {operation}{where} failed: {status}" in log, log)
        env = self.volume.scratch.env
        text = run(RBLK, "status", self.volume.name, env=env).stdout
        expect(f"{told['io_errors']}, the last at {last['time']}: {operation}{where}: {status}" in text, text)
        text = run(RBLK, "list", env=env).stdout
        expect(f"({told['io_errors']} I/O errors, see rblk status)" in text, text)

    def expect_clears(self, n=1):
        counts = self.errors()[0]["backend_errors"]
        expect_equal(ctl(self.target, "clear", f"{NQN}/1"), f"cleared: {n} namespace\n", "answer")
        expect_equal(ctl(self.target, "clear"), "cleared: 0 namespaces\n", "answer")
        ctl(self.target, "status")
        expect_equal(self.target.status()["state"], "ok", "state")
        expect_equal(self.errors()[0]["backend_errors"], counts, "counters stay")
        expect_equal(self.namespace()["state"], "ok", "state of the namespace")

    def expect_serves(self):
        nbdsh(self.volume, "h.pwrite(b's' * 4096, 0); h.flush(); assert h.pread(4096, 0) == b's' * 4096",
              "h.pwrite(b't' * 4096, 0, nbd.CMD_FLAG_FUA)")

    def expect_final(self):
        """Neither a later flush nor clearing by an administrator ends the failure; a restart does.
        """
        nbdsh(self.volume, fails(FLUSH), fails(WRITE), fails(FUA), "assert h.pread(4096, 0) == b'o' * 4096")
        ctl(self.target, "clear")
        expect_equal(self.namespace()["state"], "failed", "state of the namespace")
        ctl(self.target, "status", status=PARTIAL)
        nbdsh(self.volume, fails(FLUSH), fails(WRITE))
        expect("acknowledged writes may be lost" in self.target.read_log(), "nothing of it in the log")
        expect_equal(self.target.read_log().count("acknowledged writes may be lost"), 1, "it is said once")
        self.target.stop(status=1)  # acknowledged writes may be lost
        self.target.start()
        self.expect_serves()

    def end(self):
        self.volume.detach()
        self.target.stop()


def fails_once(scratch, call, kind, operation, n_bytes=4096, is_final=False, status=WRITE_FAULT):
    store = Store(scratch)
    nbdsh(store.volume, "h.pwrite(b'o' * 4096, 0); h.flush()")
    with injected(store.target, "io_submit:error=EIO"):
        nbdsh(store.volume, fails(call))
    last = store.expect_heard(kind, operation, EIO, n_bytes, "failed" if is_final else "degraded", status)
    expect_equal(last["errno"], "EIO", "errno")
    if is_final:
        store.expect_final()
    else:
        store.expect_serves()
        store.expect_clears()
        store.expect_serves()
    store.end()


def read_fails(scratch):
    fails_once(scratch, READ, "read", "read", status=READ_ERROR)


def write_fails(scratch):
    fails_once(scratch, WRITE, "write", "write")


def fua_write_fails(scratch):
    fails_once(scratch, FUA, "write", "write with FUA", is_final=True)


def flush_fails(scratch):
    fails_once(scratch, FLUSH, "flush", "flush", n_bytes=0, is_final=True)


def flush_at_shutdown_fails(scratch):
    """The data of a host that disconnects is flushed; a failure of that flush is no command's
    error, and is reported all the same."""
    store = Store(scratch)
    host = store.volume.status()["hostnqn"]
    nbdsh(store.volume, "h.pwrite(b'o' * 4096, 0)")
    with injected(store.target, "io_submit:error=EIO"):
        rblk(scratch, "detach", "--force", store.volume.name, check=False)
        wait_until(lambda: f"flush at shutdown failed: {EIO}; host {host}" in store.target.read_log(), "it is told")
    expect_equal(store.namespace()["state"], "failed", "state of the namespace")
    expect_equal(store.errors()[0]["last_error"]["operation"], "flush at shutdown", "last error")
    store.target.stop(status=1)  # it cannot sync the store at its end
    expect("disk.img cannot be synced" in store.target.read_log(), "the log has the failed last sync")


@contextmanager
def tmpfs(scratch, size):
    path = scratch.file("mnt")
    os.mkdir(path)
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", path)
    try:
        yield path
    finally:
        run("umount", "-l", path)


def runs_out_of_room(scratch):
    """In the middle of a write; the rest of the disk serves, and all of it does when there is room
    again."""
    with tmpfs(scratch, "8m") as mnt:
        store = Store(scratch, scratch.make_file("mnt/disk.img", 16 * MIB))
        nbdsh(store.volume, "h.pwrite(b'o' * 1048576, 0)\n"
              "for i in range(7, 16):\n"
              "    try:\n"
              "        h.pwrite(b'f' * 1048576, i << 20)\n"
              "    except nbd.Error as e:\n"
              "        assert e.errno == 'ENOSPC', e.errno\n"
              "        break\n"
              "else:\n"
              "    assert False, 'there was room'\n")
        store.expect_heard("no_space", "write", "No space left on device", MIB,
                           status="Capacity Exceeded (status 0.81)")
        nbdsh(store.volume, fails("h.pwrite(b'g' * 1048576, 15 << 20, nbd.CMD_FLAG_FUA)", "ENOSPC"),
              "assert h.pread(1048576, 0) == b'o' * 1048576; h.flush()",
              "h.trim(6 << 20, 7 << 20); h.pwrite(b'h' * 1048576, 15 << 20, nbd.CMD_FLAG_FUA); h.flush()",
              "assert h.pread(1048576, 15 << 20) == b'h' * 1048576")
        store.expect_clears()
        store.end()


def is_cut(scratch):
    """Truncated by another program: the missing part cannot be read, and the log line has the
    reason."""
    store = Store(scratch)
    nbdsh(store.volume, "h.pwrite(b'o' * 16777216, 0); h.flush()")
    os.truncate(store.path, MIB)
    nbdsh(store.volume, "assert h.pread(1048576, 0) == b'o' * 1048576", fails("h.pread(4096, 8 << 20)"))
    store.expect_heard("read", "read", "it ends before that: file or device is smaller than the namespace",
                       status=READ_ERROR)
    nbdsh(store.volume, fails("h.pread(4096, 16773120)"), WRITE, FLUSH)
    expect_equal(store.errors()[0]["backend_errors"]["read"], 2, "errors")
    os.truncate(store.path, 16 * MIB)
    nbdsh(store.volume, "assert h.pread(4096, 8 << 20) == bytes(4096)")
    store.expect_clears()
    store.end()


def tells_little_of_many(scratch):
    """A thousand errors do not fill a disk with log; the lines count those left out."""
    store = Store(scratch)
    os.truncate(store.path, MIB)
    nbdsh(store.volume, "for i in range(1000):\n"
          "    try:\n        h.pread(4096, 8 << 20)\n        assert False\n"
          "    except nbd.Error:\n        pass\n")
    expect_equal(store.errors()[0]["backend_errors"]["read"], 1000, "errors")
    n_lines = store.target.read_log().count(": read of ")
    expect(5 <= n_lines < 500, f"{n_lines} lines")

    def tells_the_rest():
        nbdsh(store.volume, fails("h.pread(4096, 8 << 20)"))
        return re.search(r"; \d+ more before", store.target.read_log())

    wait_until(tells_the_rest, "a line says how many were left out")
    store.end()


def several(scratch):
    """One of three fails: the others are well, and clearing them does not clear it."""
    paths = [scratch.make_file(f"{i}.img", MIB) for i in range(2)]
    target = Target(scratch, [f"nsid: 1, file: {paths[0]}", f"nsid: 2, file: {paths[1]}", "nsid: 3, ram: 1MiB"])
    volumes = [Volume(target, i) for i in (1, 2)]
    for path, volume in zip(paths, volumes):
        os.truncate(path, 0)
        nbdsh(volume, fails("h.pread(4096, 0)"))
    states = lambda: [n["state"] for n in target.list("namespaces")["namespaces"]]
    expect_equal(states(), ["degraded", "degraded", "ok"], "states")
    expect_equal(target.status()["degraded_namespaces"], 2, "how many")
    expect_equal(ctl(target, "clear", f"{NQN}/2"), "cleared: 1 namespace\n", "answer")
    expect_equal(states(), ["degraded", "ok", "ok"], "states")
    ctl(target, "clear", f"{NQN}/7", status=NOT_FOUND)
    nbdsh(volumes[1], fails("h.pread(4096, 0)"))
    expect_equal(states(), ["degraded", "degraded", "ok"], "another error degrades again")
    expect_equal(ctl(target, "clear", NQN), "cleared: 2 namespaces\n", "answer")
    expect_equal(states(), ["ok", "ok", "ok"], "states")
    for volume in volumes:
        volume.detach()
    target.stop()


def target_stays_away(scratch):
    """I/O that the volume gives up because it has no target is reported, too."""
    target = Target(scratch, [f"nsid: 1, ram: 1MiB, {LASTING}"])
    volume = Volume(target, 1, "v1", "--fast-io-fail-tmo", "0", "--reconnect-delay", "100ms")
    target.kill()
    nbdsh(volume, fails("h.pread(4096, 8192)"))
    status = volume.status()
    expect_equal(status["last_io_error"]["error"], "the target cannot be reached", "error")
    expect_equal((status["last_io_error"]["operation"], status["last_io_error"]["lba"]), ("read", 16), "I/O")
    expect("read of 8 blocks at LBA 16 failed: the target cannot be reached"
           in read(scratch.file("run/volumes/v1.log")), "the log")
    target.start()
    volume.wait_live()
    nbdsh(volume, "h.pread(4096, 8192)")
    volume.detach()
    target.stop()


# ---- files whose growing is undone ----

def change(target, before, after):
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    expect(before in text, f"'{before}' is not in {text}")
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text.replace(before, after))


def failed_apply_grows_nothing(scratch):
    """The second file cannot grow: the first keeps its size, and the old configuration still
    applies."""
    paths = [scratch.file(f"{i}.img") for i in range(3)]
    target = Target(scratch, [f"nsid: {i + 1}, file: {p}, size: 16MiB, create: true" for i, p in enumerate(paths[:2])]
                    + ["nsid: 4, ram: 1MiB"])
    sizes = lambda: [n["size_bytes"] for n in target.list("namespaces")["namespaces"]]
    for path, old, new, much in ((paths[1], "16MiB", "512PiB", "too large"), (paths[1], "16MiB", "8MiB", "")):
        change(target, f"file: {paths[0]}, size: 16MiB", f"file: {paths[0]}, size: 32MiB")
        change(target, f"file: {path}, size: {old}", f"file: {path}, size: {new}")
        change(target, "ram: 1MiB", "ram: 2MiB")
        done = run(RBLKCTL, "apply", "--socket", target.control, check=False, env=scratch.env)
        expect(done.returncode, f"{new} was applied: {done.stdout}")
        expect(much in (done.stdout + done.stderr).lower(), f"{done.stdout}{done.stderr}")
        expect_equal([os.path.getsize(p) for p in paths[:2]], [16 * MIB, 16 * MIB], f"sizes after {new}")
        expect_equal(sizes(), [16 * MIB, 16 * MIB, MIB], "sizes for hosts")
        change(target, f"file: {paths[0]}, size: 32MiB", f"file: {paths[0]}, size: 16MiB")
        change(target, f"file: {path}, size: {new}", f"file: {path}, size: {old}")
        change(target, "ram: 2MiB", "ram: 1MiB")
        ctl(target, "apply")
        expect_equal(sizes(), [16 * MIB, 16 * MIB, MIB], "sizes after the file of before")
    target.stop()
    target.start()
    change(target, f"file: {paths[0]}, size: 16MiB", f"file: {paths[0]}, size: 32MiB")
    change(target, "ram: 1MiB", "ram: 2MiB")
    ctl(target, "apply")
    expect_equal(sizes(), [32 * MIB, 16 * MIB, 2 * MIB], "sizes when all can grow")
    expect_equal(os.path.getsize(paths[0]), 32 * MIB, "size of the file")
    target.stop()


def failed_start_grows_nothing(scratch):
    """A start that fails at one file leaves the others as they were, and removes those it made."""
    paths = [scratch.file(f"{i}.img") for i in range(3)]
    target = Target(scratch, [f"nsid: 1, file: {paths[0]}, size: 16MiB, create: true"])
    target.stop()
    change(target, f"{{nsid: 1, file: {paths[0]}, size: 16MiB, create: true}}",
           f"{{nsid: 1, file: {paths[0]}, size: 32MiB, create: true}}\n"
           f"      - {{nsid: 2, file: {paths[1]}, size: 1MiB, create: true}}\n"
           f"      - {{nsid: 3, file: {paths[2]}, size: 512PiB, create: true}}")
    try:
        target.start()
        raise AssertionError("it has started")
    except Exception as error:  # noqa: what is_ready raises
        expect("cannot create it" in str(error), str(error))
    expect_equal(target.process.returncode, CONFIG, "exit status of rblkd")
    expect_equal(os.path.getsize(paths[0]), 16 * MIB, "size of the file that was there")
    expect(not os.path.exists(paths[1]) and not os.path.exists(paths[2]), "files are left")


CASES = [
    ("a read fails", read_fails),
    ("a write fails", write_fails),
    ("a FUA write fails", fua_write_fails),
    ("a flush fails", flush_fails),
    ("the flush of a host that goes fails", flush_at_shutdown_fails),
    ("there is no room for all of a write", runs_out_of_room),
    ("a file is cut behind our back", is_cut),
    ("a thousand errors", tells_little_of_many),
    ("one of several", several),
    ("the target stays away", target_stays_away),
    ("an apply that fails grows nothing", failed_apply_grows_nothing),
    ("a start that fails grows nothing", failed_start_grows_nothing),
]

if __name__ == "__main__":
    run_cases(CASES)
