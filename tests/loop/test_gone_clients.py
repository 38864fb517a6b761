#!/usr/bin/python3
"""NBD clients that are gone: none of their waiting writes is done later, over newer data of other
clients."""

import os
import socket
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import (NQN, PATIENCE, RBLK, RBLKCTL, Target, Volume, expect, expect_equal, find_key,  # noqa: E402
                     run, run_cases, wait_until)
from nbd_server import DISC, READ, WRITE, Raw  # noqa: E402

BLOCK = 4096
# A write of so many bytes takes 16 s at the slowest rate, so a test sees those behind it.
LONG = 16 * BLOCK
SLOWEST = "qos: {write_bandwidth: 4KiB}"


def client(volume):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(volume.socket)
    sock.settimeout(PATIENCE)
    return Raw(sock).go()


def held(volume):
    return find_key(volume.status(), "held")


def lose(target, volume):
    target.kill()
    wait_until(lambda: volume.status()["state"] == "reconnecting", "the volume has noticed")


def attach(scratch, *options):
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    return target, Volume(target, 1, None, *options)


def finish(target, volume):
    wait_until(lambda: not volume.status()["connections"], "the volume sees that its clients have gone")
    volume.detach()
    target.stop()


def expect_block(raw, wanted, what):
    error, data = raw.call(READ, 0, BLOCK)
    expect_equal((error, data[:16]), (0, wanted[:16]), what)
    expect(data == wanted, f"{what}: the block is not of one write")


def write_of_a_gone_client_is_taken_back(scratch):
    """The dead client's write waited for the target; the living client writes the same block
    meanwhile."""
    target, volume = attach(scratch, "--queues", "4")
    for i in range(4):
        volume.wait_live()
        lives, dies = client(volume), client(volume)
        expect_equal(lives.call(READ, 0, BLOCK)[0], 0, "read")
        expect_equal(dies.call(READ, 0, BLOCK)[0], 0, "read")
        lose(target, volume)
        dies.request(WRITE, 0, BLOCK, payload=b"old %12d" % i * 256)
        wait_until(lambda: held(volume) == 1, "the write is held")
        dies.close()
        wait_until(lambda: held(volume) == 0, "the write of the client that is gone is taken back")
        new = b"new %12d" % i * 256
        lives.request(WRITE, 0, BLOCK, payload=new)
        target.start()
        expect_equal(lives.recv_simple()[1], 0, "write")
        expect_block(lives, new, "after the write")
        volume.wait_live()
        again = client(volume)  # not before the I/O of the dead client is over
        expect_block(again, new, "as another client sees it")
        again.close()
        lives.close()
    finish(target, volume)


def ways_to_go(scratch):
    """With and without DISC, in the middle of a payload: waiting I/O is cancelled."""
    target, volume = attach(scratch, "--queues", "2")
    lives = client(volume)
    expect_equal(lives.call(READ, 0, BLOCK)[0], 0, "read")
    dying = {how: client(volume) for how in ("close", "disc", "half a request")}
    lose(target, volume)
    for how, raw in dying.items():
        for i in range(3):
            raw.request(WRITE, i * BLOCK, BLOCK, payload=bytes([i + 1]) * BLOCK)
        raw.request(READ, 0, 3 * BLOCK)
        wait_until(lambda: held(volume) == 4, f"{how}: I/O is held")
        if how == "disc":
            raw.request(DISC)
        elif how == "half a request":
            raw.request(WRITE, 0, 2 * BLOCK, payload=b"x" * 100)
        raw.close()
        wait_until(lambda: held(volume) == 0, f"{how}: all is taken back")
    target.start()
    expect_block(lives, bytes(BLOCK), "nothing of it was done")
    lives.close()
    finish(target, volume)


def only_client_on_stdio_goes(scratch):
    """Through pipes, both of which are closed."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    with open(scratch.file("serve.log"), "wb") as log:
        process = subprocess.Popen([RBLK, "serve", f"{NQN}@{target.address}", "--stdio", "--name", "io"],
                                   env=scratch.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    ours, theirs = socket.socketpair()
    raw = Raw(ours)
    raw.recv = process.stdout.read
    raw.send = lambda data: (process.stdin.write(data), process.stdin.flush())
    raw.go()
    expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    target.kill()
    raw.request(WRITE, 0, BLOCK, payload=b"x" * BLOCK)
    process.stdin.close()
    process.stdout.close()
    process.wait(PATIENCE)  # the target is still away: the client's write was cancelled
    ours.close()
    theirs.close()
    target.start()
    with open(image, "rb") as f:
        expect_equal(f.read(16), bytes(16), "the disk")
    target.stop()


def lock_of_a_gone_client(scratch):
    """A write of a part of a block holds the block exclusively, also while it waits for the
    target; a write behind it waits."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}, block_size: 4096"])
    volume = Volume(target, 1, None, "--queues", "3")
    lives, dies, behind = client(volume), client(volume), client(volume)
    for raw in (lives, dies, behind):
        expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    lose(target, volume)
    dies.request(WRITE, 0, 100, payload=b"1" * 100)
    wait_until(lambda: held(volume) == 1, "the first half write is held")
    behind.request(WRITE, 100, 100, payload=b"2" * 100)
    lives.request(WRITE, 200, 100, payload=b"3" * 100)
    lives.request(WRITE, BLOCK, BLOCK, payload=b"4" * BLOCK)
    behind.close()
    dies.close()
    wait_until(lambda: "reconnecting" in volume.status()["state"] and held(volume) >= 1, "others hold theirs")
    target.start()
    expect_equal([lives.recv_simple()[1] for _ in range(2)], [0, 0], "writes of the one that lives")
    expect_block(lives, bytes(200) + b"3" * 100 + bytes(BLOCK - 300), "the block")
    lives.close()
    finish(target, volume)


def later_clients_wait_for_what_is_on_the_wire(scratch):
    """Writes that are at the target end before a later client's writes begin; existing clients do
    not wait."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}, {SLOWEST}"])
    volume = Volume(target, 1, None, "--queues", "4", "--io-timeout", "10min")
    n_old = 24
    lives, dies = client(volume), client(volume)
    for raw in (lives, dies):
        expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    for i in range(n_old):
        dies.request(WRITE, 0, LONG, payload=b"old %12d" % i * (LONG // 16))
    wait_until(lambda: find_key(volume.status(), "in_flight") >= n_old - 1, "its writes are at the target")
    dies.close()
    later = [client(volume) for _ in range(2)]
    expect_equal(lives.call(READ, BLOCK, BLOCK)[0], 0, "a client that lives on does not wait")
    for i, raw in enumerate(later):
        new = b"new %12d" % i * 256
        raw.request(WRITE, 0, BLOCK, payload=new)
        run(RBLKCTL, "qos", "set", "--socket", target.control, f"{NQN}/1", "write_bandwidth=none", env=scratch.env)
        expect_equal(raw.recv_simple()[1], 0, "write")
        n_done = target.list("namespaces")["namespaces"][0]["writes"]
        expect(n_done >= n_old + 1 + i, f"{n_done} writes were done, and {n_old} are older than this one")
        expect_block(raw, new, "after the write")
    for raw in (lives, *later):
        raw.close()
    finish(target, volume)


def sent_writes_are_not_sent_again(scratch):
    """Their client is gone when the connection to the target breaks: their results are dropped."""
    image = scratch.make_file("disk.img", 64 << 20)
    target = Target(scratch, [f"nsid: 1, file: {image}, {SLOWEST}"])
    volume = Volume(target, 1, None, "--queues", "2")
    lives, dies = client(volume), client(volume)
    for raw in (lives, dies):
        expect_equal(raw.call(READ, 0, BLOCK)[0], 0, "read")
    for i in range(8):
        dies.request(WRITE, (i + 1) * LONG, LONG, payload=b"x" * LONG)
    wait_until(lambda: find_key(volume.status(), "in_flight") >= 6, "its writes are at the target")
    dies.close()
    lose(target, volume)
    wait_until(lambda: (held(volume), find_key(volume.status(), "in_flight")) == (0, 0), "none is held")
    target.start()
    expect_equal(lives.call(READ, 0, BLOCK)[0], 0, "read")
    expect_equal(target.list("namespaces")["namespaces"][0]["writes"], 0, "writes that were sent again")
    lives.close()
    finish(target, volume)


CASES = (write_of_a_gone_client_is_taken_back, ways_to_go, only_client_on_stdio_goes, lock_of_a_gone_client,
         later_clients_wait_for_what_is_on_the_wire, sent_writes_are_not_sent_again)
run_cases([(case.__name__.replace("_", " "), case) for case in CASES
           if len(sys.argv) < 2 or sys.argv[1] in case.__name__])
