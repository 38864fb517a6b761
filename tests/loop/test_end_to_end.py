#!/usr/bin/python3
"""Every backend, both block sizes, sizes from 512 B to 1 MiB, depths from 1 to 128, verified."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (IS_SANITIZED, VERIFY, Failure, Target, Volume, expect, expect_equal, fio,  # noqa: E402
                     run, run_cases)

SIZE = 64 << 20
# Instrumented programs get less data: as much as fills each queue, several times where blocks are small.
MIXES = (  # block size, depth, data written
    ("512", 1, "64k"), ("512", 64, "512k"), ("4k", 1, "512k"), ("4k", 32, "2m"), ("4k", 128, "4m"),
    ("12k", 16, "2m"), ("64k", 16, "4m"), ("128k", 128, "32m"), ("1m", 1, "8m"), ("1m", 32, "48m"),
) if IS_SANITIZED else (
    ("512", 1, "512k"), ("512", 64, "4m"), ("4k", 1, "4m"), ("4k", 32, "16m"), ("4k", 128, "32m"),
    ("12k", 16, "16m"), ("64k", 16, "32m"), ("128k", 128, "64m"), ("1m", 1, "32m"), ("1m", 32, "64m"),
)


def verify_all(scratch, uri):
    """One fio for all mixes, one after the other: its start takes a quarter of a second of CPU time."""
    jobs = [option for block, depth, size in MIXES
            for option in (f"--name={block}-{depth}", "--stonewall", "--rw=randwrite", f"--bs={block}",
                           f"--iodepth={depth}", f"--size={size}")]
    run("fio", "--ioengine=nbd", f"--uri={uri}", "--output-format=terse", f"--aux-path={scratch.path}", *VERIFY,
        *jobs, cwd=scratch.path)
    # reads and writes mixed, sizes mixed, several connections
    fio(scratch, uri, "--rw=randrw", "--bsrange=512-256k", "--bs_unaligned=0", "--blockalign=512",
        "--iodepth=32", "--numjobs=4", "--offset_increment=16m",
        "--size=2m" if IS_SANITIZED else "--size=8m", *VERIFY)


def with_backend(line):
    def case(scratch):
        target = Target(scratch, [line.format(scratch=scratch.path)])
        volume = Volume(target, 1)
        verify_all(scratch, volume.uri)
        volume.detach()
        target.stop()
    return case


def file_case(block_size):
    def case(scratch):
        scratch.make_file("disk.img", SIZE)
        with_backend("nsid: 1, file: {scratch}/disk.img, block_size: " + str(block_size))(scratch)
    return case


def tmpfs_case(scratch):
    """Where O_DIRECT is refused on older kernels, and aio never sleeps: the thread pool."""
    path = f"/dev/shm/rblk-test-{os.getpid()}.img"
    try:
        with open(path, "wb") as f:
            f.truncate(SIZE)
        with_backend("nsid: 1, file: " + path)(scratch)
    finally:
        os.unlink(path)


def loop_case(scratch):
    image = scratch.make_file("loop.img", SIZE)
    done = run("losetup", "--find", "--show", image, check=False)
    if done.returncode:
        raise Failure("no loop device: " + done.stderr)
    device = done.stdout.strip()
    try:
        with_backend("nsid: 1, device: " + device)(scratch)
    finally:
        run("losetup", "-d", device, check=False)


def data_is_in_the_file(scratch):
    """The backing file holds what the client wrote, byte for byte, and the other way round."""
    image = scratch.make_file("disk.img", SIZE)
    with open(image, "r+b") as f:
        f.seek(5 << 20)
        f.write(b"written behind the target's back" * 1000)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=4m", "--end_fsync=1")
    copy = scratch.file("copy.img")
    run("nbdcopy", volume.uri, copy)
    run("cmp", image, copy)
    volume.detach()
    target.stop()


def many_namespaces(scratch):
    """Three namespaces of one subsystem, loaded at once."""
    scratch.make_file("disk.img", SIZE)
    target = Target(scratch, [f"nsid: 1, file: {scratch.path}/disk.img", "nsid: 7, ram: 64MiB",
                              "nsid: 1024, ram: 32MiB, block_size: 4096"])
    volumes = [Volume(target, nsid) for nsid in (1, 7, 1024)]
    processes = [subprocess.Popen(["fio", "--name=t", "--ioengine=nbd", f"--uri={v.uri}",
                                   "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16m",
                                   f"--aux-path={scratch.path}", *VERIFY], cwd=scratch.path,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for v in volumes]
    for process in processes:
        output, _ = process.communicate(timeout=600)
        expect_equal(process.returncode, 0, "fio " + output[-1500:])
    for volume in volumes:
        volume.detach()
    target.stop()


def read_only(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB, read_only: true"])
    volume = Volume(target, 1)
    info = run("nbdinfo", "--json", volume.uri).stdout
    expect('"is_read_only": true' in info, "nbdinfo does not say read-only:\n" + info)
    done = fio(scratch, volume.uri, "--rw=write", "--bs=4k", "--size=64k", check=False)
    expect(done.returncode != 0, "a write to a read-only namespace succeeded")
    volume.detach()
    target.stop()


def zeroes_and_trim(scratch):
    for line in ("nsid: 1, ram: 16MiB", "nsid: 1, ram: 16MiB, block_size: 4096"):
        target = Target(scratch, [line])
        volume = Volume(target, 1)
        run("qemu-io", "-f", "raw", "-c", "write -P 0xaa 0 8M", "-c", "write -z 1M 2M",
            "-c", "read -P 0 1M 2M", "-c", "read -P 0xaa 0 1M", "-c", "read -P 0xaa 3M 5M",
            "-c", "write -z -u 4M 1M", "-c", "read -P 0 4M 1M", "-c", "discard 5M 1M",
            "-c", "read 5M 1M", "-c", "flush", volume.uri)
        volume.detach()
        target.stop()


def in_capsule(size):
    """Writes with no in-capsule data at all, and with the largest."""
    def case(scratch):
        target = Target(scratch, ["nsid: 1, ram: 64MiB"], extra=f"tuning: {{inline_data: {size}}}")
        volume = Volume(target, 1)
        verify_all(scratch, volume.uri)
        volume.detach()
        target.stop()
    return case


def few_buffers(scratch):
    """The smallest arena under the deepest queues: commands wait, none fails."""
    target = Target(scratch, ["nsid: 1, file: " + scratch.make_file("disk.img", SIZE)],
                    extra="tuning: {buffers: 4MiB, shared_receives: 32, workers: 1}")
    volume = Volume(target, 1)
    verify_all(scratch, volume.uri)
    volume.detach()
    target.stop()


CASES = [
    ("ram, 512 B blocks", with_backend("nsid: 1, ram: 64MiB")),
    ("ram, 4096 B blocks", with_backend("nsid: 1, ram: 64MiB, block_size: 4096")),
    ("file, 512 B blocks", file_case(512)),
    ("file, 4096 B blocks", file_case(4096)),
    ("file on tmpfs", tmpfs_case),
    ("block device", loop_case),
    ("data is in the file", data_is_in_the_file),
    ("three namespaces at once", many_namespaces),
    ("read-only namespace", read_only),
    ("write zeroes and trim", zeroes_and_trim),
    ("in-capsule data off", in_capsule("0")),
    ("in-capsule data 16 KiB", in_capsule("16KiB")),
    ("few buffers", few_buffers),
]

if __name__ == "__main__":
    run_cases(CASES)
