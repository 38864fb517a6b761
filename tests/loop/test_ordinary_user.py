#!/usr/bin/python3
"""README's "By hand" for an ordinary user: no privileges, 8 MiB of locked memory, a run directory
of its own."""

import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLK, RBLKCTL, RBLKD, ROOT, SANITIZER_REPORT, Target, Volume,  # noqa: E402
                     expect, expect_equal, fio, free_port, rblk, run, run_cases, wait_until, VERIFY)
from quickstart import Quickstart  # noqa: E402

MIB = 1 << 20
UNPRIVILEGED = 65534
DEMO = "nqn.2026-01.org.example:demo"


def limit():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 * MIB, 8 * MIB))


def as_user():
    """The user that runs the tests may be an ordinary one already."""
    limit()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)


def by_hand(scratch):
    port = free_port()
    with open(os.path.join(ROOT, "docs", "examples", "ram.yaml"), encoding="utf-8") as f:
        text = f.read().replace("address: 127.0.0.1}", f"address: 127.0.0.1, port: {port}}}")
    with open(scratch.file("ram.yaml"), "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(scratch.path, 0o755)
    os.mkdir(scratch.file("own"))
    if os.geteuid() == 0:
        os.chown(scratch.file("own"), UNPRIVILEGED, UNPRIVILEGED)
    env = {key: value for key, value in scratch.env.items() if key not in ("RBLK_RUN_DIR", "RBLK_STATE_DIR")}
    env.update(XDG_RUNTIME_DIR=scratch.file("own"))
    if os.geteuid() == 0:  # root's would work, too
        env.update(RBLK_CONTROL_SOCKET="")

    def user(*command):
        done = run(*command, env=env, cwd=scratch.file("own"), preexec_fn=as_user)
        expect(not SANITIZER_REPORT.search(done.stderr), done.stderr)
        return done.stdout

    with open(scratch.file("rblkd.log"), "wb") as log:
        rblkd = subprocess.Popen([RBLKD, "--config", scratch.file("ram.yaml")], env=env, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log, preexec_fn=as_user)
    wait_until(lambda: rblkd.poll() is not None or os.path.exists(scratch.file("own/rblk/rblkd.sock")) and
               "ready" in open(scratch.file("rblkd.log"), encoding="utf-8").read(), "rblkd is ready, or has ended")
    expect_equal(rblkd.poll(), None, "exit status of rblkd")
    expect("listening" in user(RBLKCTL, "status"), "rblkctl finds rblkd")
    expect(DEMO in user(RBLK, "discover", f"127.0.0.1:{port}"), "discover shows the subsystem")
    uri = user(RBLK, "attach", f"{DEMO}@127.0.0.1:{port}", "--name", "demo").split()[0]
    expect_equal(uri, f"nbd+unix:///demo?socket={scratch.path}/own/rblk/volumes/demo.nbd", "where it is")
    user("fio", "--name=t", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=4k", "--size=1m", "--iodepth=8",
         "--verify_state_save=0", *VERIFY)
    expect("live" in user(RBLK, "status", "demo"), "it is live")
    expect_equal(user(RBLK, "detach", "demo"), "detached demo\n", "what detach says")
    rblkd.terminate()
    expect_equal(rblkd.wait(PATIENCE), 0, "exit status of rblkd")


def smaller_buffers(scratch):
    """A device locks memory: the volume takes what the limit leaves, logs that, and works with it.
    """
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    env = dict(scratch.env, SOFTRDMA_MEMLOCK_STRICT="1")
    done = run(RBLK, "attach", f"{NQN}@{target.address}", "--name", "v1", "--frontend", "socket", env=env,
               preexec_fn=limit)
    expect("limit of locked memory leaves 1MiB of buffers a queue, not 32MiB" in done.stderr, done.stderr)
    status = rblk(scratch, "status", "v1", "-o", "json").stdout
    expect(f'"buffer_bytes": {4 * MIB}' in status, status)
    uri = done.stdout.split()[0]
    fio(scratch, uri, "--rw=randwrite", "--bs=1m", "--iodepth=16", "--size=8m", *VERIFY)
    fio(scratch, uri, "--rw=randwrite", "--bs=4k", "--iodepth=64", "--numjobs=3", "--size=2m",
        "--offset_increment=2m", *VERIFY)
    rblk(scratch, "detach", "v1")
    volume = Volume(target, 1, "v1", "--buffers", "2MiB")
    expect('"buffer_bytes": 2097152' in rblk(scratch, "status", "v1", "-o", "json").stdout, "as much as was asked for")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=1m", "--iodepth=16", "--size=8m", *VERIFY)
    volume.detach()
    target.stop()


def namespaces_of_one_target(scratch):
    """Detaches one of two namespaces of one subsystem by the address that it was attached with."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"])
    first, second = Volume(target, 1, "one"), Volume(target, 2, "two")
    where = f"{NQN}@{target.address}"
    done = rblk(scratch, "detach", where, check=False)
    expect_equal(done.returncode, 2, "exit status of an ambiguous detach")
    expect("--ns" in done.stderr, done.stderr)
    expect_equal(rblk(scratch, "detach", where, "--ns", "2").stdout, "detached two\n", "what detach says")
    expect(first.is_live() and not os.path.exists(second.socket), "the other one is there")
    first.detach()
    target.stop()


def interrupted_quickstart(scratch):
    script = Quickstart(scratch, image_mib=128)

    def is_loading():
        children = script.goes_on() and run("pgrep", "-s", script.script.pid, "fio", check=False).stdout
        return children and "fio on file" in script.said()

    wait_until(is_loading, "fio runs", 2 * PATIENCE)
    script.interrupt()


CASES = [
    ("README's By hand, without privileges", by_hand),
    ("buffers as large as the limit of locked memory", smaller_buffers),
    ("detach of one namespace of two", namespaces_of_one_target),
    ("Ctrl-C in quickstart leaves nothing", interrupted_quickstart),
]

if __name__ == "__main__":
    run_cases(CASES)
