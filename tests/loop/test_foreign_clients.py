#!/usr/bin/python3
"""Foreign NBD clients against an attached volume: the data that they read and write must be right.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import Target, Volume, expect, expect_equal, run, run_cases  # noqa: E402

SIZE = 64 << 20
FILE = "nsid: 1, file: {disk}, size: 64MiB, create: true"  # memory has no holes
DATA = [(at, 2 << 20) for at in range(0, SIZE, 4 << 20)]  # between them holes


def with_volume(function, line="nsid: 1, ram: 64MiB"):
    def case(scratch):
        target = Target(scratch, [line.format(disk=scratch.file("disk.img"))])
        volume = Volume(target, 1)
        function(scratch, volume)
        volume.detach()
        target.stop()
    return case


def random_image(scratch, name="random.img", size=SIZE):
    path = scratch.file(name)
    with open(path, "wb") as f:
        # half of it holes, so that copies with block status and zeroes are exercised
        for at, length in DATA:
            f.seek(at)
            f.write(os.urandom(length))
        f.truncate(size)
    return path


def expect_map(extents, wanted, what):
    """extents: (offset, length, does it read as zeroes) of the whole volume. wanted: where it has data."""
    merged, end = [], 0
    for at, length, is_zero in extents:
        expect_equal(at, end, f"{what}: where an extent begins")
        end += length
        if not is_zero and merged and sum(merged[-1]) == at:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        elif not is_zero:
            merged.append((at, length))
    expect_equal(end, SIZE, f"{what}: where the map ends")
    expect_equal(merged, wanted, f"{what}: where data is")


def nbdinfo_map(volume):
    extents = json.loads(run("nbdinfo", "--map", "--json", volume.uri).stdout)
    return [(e["offset"], e["length"], e["type"] & 2) for e in extents]


def nbdinfo(scratch, volume):
    info = json.loads(run("nbdinfo", "--json", volume.uri).stdout)
    expect_equal(info["protocol"], "newstyle-fixed", "protocol")
    export = info["exports"][0]
    expect_equal(export["export-size"], SIZE, "size")
    for flag in ("can_cache", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"):
        expect(export[flag], f"nbdinfo: {flag} is false")
    expect(not export["is_read_only"], "nbdinfo: read-only")
    expect("base:allocation" in export["contexts"], "no base:allocation")
    listed = json.loads(run("nbdinfo", "--list", "--json", volume.uri).stdout)
    expect_equal(len(listed["exports"]), 1, "number of exports")
    expect_map(nbdinfo_map(volume), [(0, SIZE)], "nbdinfo --map of memory")


def nbdcopy_both_ways(scratch, volume):
    image = random_image(scratch)
    run("nbdcopy", "--flush", image, volume.uri)
    run("nbdcopy", volume.uri, scratch.file("back.img"))
    run("cmp", image, scratch.file("back.img"))
    run("nbdcopy", "--synchronous", "--connections=1", volume.uri, scratch.file("again.img"))
    run("cmp", image, scratch.file("again.img"))


def qemu_img(scratch, volume):
    image = random_image(scratch)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, volume.uri)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, volume.uri)
    extents = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", volume.uri).stdout)
    expect_map([(e["start"], e["length"], e["zero"]) for e in extents], DATA, "qemu-img map")
    expect_map(nbdinfo_map(volume), DATA, "nbdinfo --map")
    run("qemu-img", "bench", "-f", "raw", "-c", "2000", "-d", "32", "-w", volume.uri)


def qemu_io(scratch, volume):
    run("qemu-io", "-f", "raw", "-c", "write -P 1 0 1M", "-c", "write -f -P 2 512 512",
        "-c", "read -P 1 0 512", "-c", "read -P 2 512 512", "-c", "read -P 1 1024 1023k",
        "-c", "aio_write -P 3 1M 2M", "-c", "aio_flush", "-c", "read -P 3 1M 2M", volume.uri)


def unaligned(scratch, volume):
    """Bytes at unaligned offsets of 4096 B blocks, by a client that requests no alignment."""
    script = """
import os
expected = bytearray(h.pread(1 << 20, 0))
for i in range(200):
    at, n = (i * 7919) % ((1 << 20) - 9000), 1 + (i * 131) % 9000
    data = os.urandom(n)
    h.pwrite(data, at)
    expected[at:at + n] = data
assert h.pread(1 << 20, 0) == expected
h.zero(777, 12345)
expected[12345:12345 + 777] = bytes(777)
assert h.pread(1 << 20, 0) == expected
"""
    # Debian's python3, whatever other python3 comes first in PATH: it has the nbd module
    run("nbdsh", "-u", volume.uri, "-c", "h.set_strict_mode(0)", "-c", script,
        env=dict(scratch.env, PATH="/usr/bin:/bin"))


def file_system(scratch, volume):
    """A file system made on a copy, written in, read back out: e2fsck decides."""
    image = scratch.file("fs.img")
    with open(image, "wb") as f:
        f.truncate(SIZE)
    run("mke2fs", "-q", "-t", "ext4", "-F", "-d", os.path.dirname(os.path.abspath(__file__)), image)
    run("nbdcopy", image, volume.uri)
    run("nbdcopy", volume.uri, scratch.file("out.img"))
    run("e2fsck", "-fn", scratch.file("out.img"))


CASES = [
    ("nbdinfo", with_volume(nbdinfo)),
    ("nbdcopy both ways", with_volume(nbdcopy_both_ways)),
    ("nbdcopy both ways, 4096 B blocks",
     with_volume(nbdcopy_both_ways, "nsid: 1, ram: 64MiB, block_size: 4096")),
    ("qemu-img convert, compare, map, bench", with_volume(qemu_img, FILE)),
    ("qemu-io", with_volume(qemu_io)),
    ("nbdsh, unaligned on 4096 B blocks", with_volume(unaligned, "nsid: 1, ram: 64MiB, block_size: 4096")),
    ("nbdsh, unaligned on 512 B blocks", with_volume(unaligned)),
    ("an ext4 file system there and back", with_volume(file_system)),
]

if __name__ == "__main__":
    run_cases(CASES)
