#!/usr/bin/python3
"""The programs that are built on librblk: fio's engine, nbdkit's plug-in and the Python module."""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, LASTING, NQN, ROOT, Target, expect, expect_data, expect_equal, run, run_cases,  # noqa: E402
                     wait_until)

LIBRARY = os.path.join(BUILD, "library")
ENGINE = os.path.join(BUILD, "tools", "fio", "rblk-fio.so")
PLUGIN = os.path.join(BUILD, "tools", "nbdkit", "nbdkit-rblk-plugin.so")
KILL_FOR = 12  # seconds
MIB = 1 << 20
SIZE = 32 * MIB


def start_target(scratch):
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk', SIZE)}, {LASTING}"])
    scratch.env["URI"] = f"nvme+rdma://{target.address}/{NQN}?ns=1"
    scratch.env["LIBRBLK"] = os.path.join(LIBRARY, "librblk.so.0")
    return target


def fio_command(scratch, *options):
    return ["fio", "--name=t", f"--ioengine=external:{ENGINE}", "--uri=" + scratch.env["URI"],
            "--output-format=terse", f"--aux-path={scratch.path}", *options]


def fio(scratch, *options, check=True):
    return run(*fio_command(scratch, *options), env=scratch.env, cwd=scratch.path, check=check)


# ---- fio ----

def test_fio(scratch):
    target = start_target(scratch)
    for options in (("--rw=randwrite", "--bs=4k", "--iodepth=32"),
                    ("--rw=write", "--bs=512k", "--iodepth=4", "--fsync=16"),
                    ("--rw=randrw", "--bs=4k-64k", "--iodepth=8", "--numjobs=2", "--size=8m", "--offset_increment=16m"),
                    ("--rw=randtrimwrite", "--bs=16k", "--iodepth=1", "--size=8m")):
        fio(scratch, *options, "--verify=crc32c" if "trim" not in options[0] else "--verify=0")
    with open(scratch.file("disk"), "rb") as f:
        before = f.read()
        fio(scratch, "--rw=randtrim", "--bs=16k", "--iodepth=8", "--size=4m", "--offset=1m")
        f.seek(0)
        after = f.read()
    expect(any(before[MIB:5 * MIB]), "there was nothing to trim")
    expect_data(after, before[:MIB] + bytes(4 * MIB) + before[5 * MIB:], "the disk after trims")
    target.stop()


def test_fio_mistakes(scratch):
    target = start_target(scratch)
    scratch.env["URI"] += "&ns=77"
    done = fio(scratch, "--rw=read", check=False)
    expect(done.returncode and "namespace 77" in done.stdout + done.stderr, done.stdout + done.stderr)
    scratch.env["URI"] = "nbd://x"
    done = fio(scratch, "--rw=read", check=False)
    expect(done.returncode and "not the URI of a volume" in done.stdout + done.stderr, done.stdout + done.stderr)
    target.stop()


def test_fio_killed(scratch):
    """fio verifies while rblkd is killed, again and again."""
    target = start_target(scratch)
    load = subprocess.Popen(fio_command(scratch, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--verify=crc32c",
                                        "--verify_backlog=256", "--loops=1000", f"--runtime={KILL_FOR}",
                                        "--time_based", "--size=16m"),
                            env=scratch.env, cwd=scratch.path, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    n_kills = 0
    try:
        while load.poll() is None:
            try:
                load.wait(3)
            except subprocess.TimeoutExpired:
                target.kill()
                target.start()
                n_kills += 1
        out = load.communicate()[0]
    finally:
        load.kill()
    expect(load.returncode == 0, f"fio: exit status {load.returncode}: {out[-3000:]}")
    expect(n_kills >= 2, f"{n_kills} kills")
    target.stop()


# ---- nbdkit ----

def nbdkit(scratch, command, *parameters, check=True):
    return run("nbdkit", "-U", "-", PLUGIN, "uri=" + scratch.env["URI"], *parameters, "--run", command,
               env=scratch.env, cwd=scratch.path, check=check)


def test_nbdkit(scratch):
    target = start_target(scratch)
    info = nbdkit(scratch, 'nbdinfo "$uri"').stdout
    expect(f"export-size: {SIZE}" in info and "can_multi_conn: true" in info and "can_fua: true" in info, info)
    run("dd", "if=/dev/urandom", "of=" + scratch.file("in"), "bs=1M", "count=32")
    nbdkit(scratch, 'nbdcopy in "$uri" && nbdcopy --synchronous "$uri" out1 && qemu-img convert -n -f raw -O raw '
                    '"$uri" out2 2>/dev/null || qemu-img convert -f raw -O raw "$uri" out2')
    for name in ("out1", "out2"):
        run("cmp", scratch.file("in"), scratch.file(name))
    nbdkit(scratch, 'qemu-img compare -f raw -F raw in "$uri"')
    nbdkit(scratch, "qemu-io -f raw -c 'write -P 7 0 64k' -c 'write -z 64k 64k' -c 'discard 1M 1M' -c flush "
                    "-c 'read -P 7 0 64k' -c 'read -P 0 64k 64k' \"$uri\"")
    nbdkit(scratch, "/usr/bin/python3 -c \"import nbd; h = nbd.NBD(); h.connect_uri('$uri'); b = h.pread(65536, 0); "
                    "assert bytes(b) == bytes([7]) * 65536; h.zero(4096, 0); h.flush(); h.trim(4096, 0); "
                    "h.pwrite(bytes([5]) * 4096, 4096, nbd.CMD_FLAG_FUA); "
                    "assert bytes(h.pread(4096, 4096)) == bytes([5]) * 4096; h.shutdown()\"")
    target.stop()


def test_nbdkit_extents(scratch):
    """Holes of a file, by block status; a copy has them, too."""
    image = scratch.make_file("sparse", 0)
    with open(image, "r+b") as f:
        f.truncate(32 << 20)
        f.seek(8 << 20)
        f.write(b"x" * (1 << 20))
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    scratch.env["URI"] = f"nvme+rdma://{target.address}/{NQN}"
    found = nbdkit(scratch, 'nbdinfo --map --json "$uri"').stdout
    expect_equal([(e["offset"], e["length"], e["type"]) for e in json.loads(found)],
                 [(0, 8 << 20, 3), (8 << 20, 1 << 20, 0), (9 << 20, 23 << 20, 3)], "the map")
    nbdkit(scratch, 'nbdcopy "$uri" out')
    run("cmp", image, scratch.file("out"))
    target.stop()


def test_nbdkit_mistakes(scratch):
    target = start_target(scratch)
    done = nbdkit(scratch, "true", "x=1", check=False)
    expect("there is no option 'x'" in done.stderr, done.stderr)
    target.stop()


def test_nbdkit_daemon(scratch):
    """nbdkit as a daemon opens the volume after it has forked, and goes on when rblkd was killed."""
    target = start_target(scratch)
    socket, pid_file = scratch.file("nbd.sock"), scratch.file("nbdkit.pid")
    run("nbdkit", "-U", socket, "-P", pid_file, PLUGIN, "uri=" + scratch.env["URI"], env=scratch.env)
    wait_until(lambda: os.path.exists(pid_file), "nbdkit")
    uri = f"nbd+unix:///?socket={socket}"
    run("qemu-io", "-f", "raw", "-c", "write -P 9 0 1M", uri)
    target.kill()
    target.start()
    run("qemu-io", "-f", "raw", "-c", "read -P 9 0 1M", uri)
    with open(pid_file, encoding="ascii") as f:
        os.kill(int(f.read()), 15)
    target.stop()


# ---- Python ----

PYTHON = """
import concurrent.futures, os, rblk
uri = os.environ["URI"]
with rblk.Volume(uri, ctrl_loss_tmo="30s", queues=4) as volume:
    size = volume.block_size
    assert volume.size == 32 << 20 and volume.status()["state"] == "live"
    def work(i):
        for k in range(20):
            data = bytes([i, k]) * (size // 2)
            volume.write(i * size, data, fua=k % 2)
            assert volume.read(i * size, size) == data
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    volume.flush()
    volume.write_zeroes(0, size)
    assert not any(volume.read(0, size))
    volume.discard(0, size)
    one, two = bytes([1]) * size, bytes([2]) * size
    volume.write(size, one)
    assert volume.max_compare_bytes >= 8192 and not volume.compare_and_write(size, two, one)
    assert volume.compare_and_write(size, one, two, fua=True) and volume.read(size, size) == two
    for expected in (two[1:], two * (volume.max_compare_bytes // size + 1)):
        try:
            volume.compare_and_write(size, expected, two if len(expected) < size else expected)
            raise SystemExit("no error")
        except (ValueError, OSError):
            pass
    import array
    volume.write(size, array.array("I", range(size // 4)))  # all of it: items of 4 bytes
    assert volume.read(size, size) == bytes(array.array("I", range(size // 4)))
    for call in (lambda: volume.write(1 << 64, one), lambda: volume.write_zeroes(size, (1 << 64) + size),
                 lambda: volume.discard(-size, size)):
        try:
            call()
            raise SystemExit("no error")
        except OSError as error:
            assert error.errno == 22
    for offset, length in ((1, size), (0, 7), (volume.size, size)):
        try:
            volume.read(offset, length)
            raise SystemExit("no error")
        except OSError as error:
            assert error.errno == 22
try:
    volume.status()
    raise SystemExit("closed volumes work")
except ValueError:
    pass
try:
    rblk.Volume(uri, ns=77)
    raise SystemExit("no error")
except rblk.Error as error:
    assert "77" in str(error) and isinstance(error.hint, str), error
print(rblk.version())
"""


def test_python(scratch):
    target = start_target(scratch)
    done = run("/usr/bin/python3", "-c", PYTHON, env=dict(scratch.env, PYTHONPATH=os.path.join(ROOT, "tools/python")))
    expect(re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout), done.stdout)
    target.stop()


if __name__ == "__main__":
    CASES = [("fio reads, writes, trims and verifies", test_fio),
             ("fio reports what is wrong", test_fio_mistakes),
             ("fio finds no error while rblkd is killed", test_fio_killed)]
    if os.path.exists(PLUGIN) and shutil.which("nbdkit"):
        CASES += [("libnbd and qemu through nbdkit", test_nbdkit),
                  ("holes through nbdkit", test_nbdkit_extents),
                  ("nbdkit reports what is wrong", test_nbdkit_mistakes),
                  ("nbdkit as a daemon", test_nbdkit_daemon)]
    CASES += [("the Python module", test_python)]
    run_cases(CASES)
