#!/usr/bin/python3
"""Foreign clients: libnbd (also in non-strict mode), nbdinfo, nbdcopy, qemu, fio; unix, stdio."""

import errno
import json
import os
import subprocess

import nbd

from nbd_server import MIB, SERVER, Raw, Server, expect, expect_equal, pattern
from harness import PATIENCE, SANITIZER_REPORT, expect_data, fio, run, run_cases


def handle(server, opt_mode=False, strict=0):
    h = nbd.NBD()
    h.set_strict_mode(strict)
    h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.set_opt_mode(opt_mode)
    h.connect_uri(server.uri)
    return h


def errno_of(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except nbd.Error as error:
        return error.errnum
    return 0


def make_image(scratch, size=64 * MIB):
    path = scratch.file("image")
    with open(path, "wb") as f:
        for i in range(size // MIB):
            f.write(pattern(MIB, i) if i % 3 else bytes(MIB))
    return path


def case_libnbd_options(scratch):
    server = Server(scratch)
    h = handle(server, opt_mode=True)
    names = []
    expect_equal(h.opt_list(lambda name, text: names.append(name) and 0), 1, "exports")
    expect_equal(names, ["ram"], "LIST")
    contexts = []
    h.set_export_name("ram")
    expect_equal(h.opt_list_meta_context(lambda name: contexts.append(name) and 0), 1, "contexts")
    expect_equal(contexts, ["base:allocation"], "contexts")
    h.set_export_name("other")
    expect_equal(errno_of(h.opt_info), errno.ENOENT, "INFO of an unknown name")
    expect_equal(errno_of(h.opt_go), errno.ENOENT, "GO to an unknown name")
    h.set_export_name("")
    h.opt_info()
    expect_equal(h.get_size(), 64 * MIB, "size")
    h.opt_go()
    expect(h.can_multi_conn() and h.can_df() and h.can_fua() and h.can_fast_zero(), "abilities")
    expect(h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION), "meta context")
    h.shutdown()
    h = handle(server, opt_mode=True)
    h.opt_abort()
    server.stop()


def case_libnbd_not_strict(scratch):
    server = Server(scratch)
    h = handle(server)
    size = h.get_size()
    buf = bytes(4096)
    expect_equal(errno_of(h.pread, 4096, size), errno.EINVAL, "read beyond the end")
    expect_equal(errno_of(h.pwrite, buf, size - 100), errno.ENOSPC, "write beyond the end")
    expect_equal(errno_of(h.zero, 4096, size), errno.ENOSPC, "zero beyond the end")
    expect_equal(errno_of(h.trim, 4096, size), errno.EINVAL, "trim beyond the end")
    expect_equal(errno_of(h.cache, 4096, size), errno.EINVAL, "cache beyond the end")
    expect_equal(errno_of(h.pread, 512, 0, nbd.CMD_FLAG_NO_HOLE), errno.EINVAL, "strange flag")
    expect_equal(errno_of(h.flush, 0x8000), errno.EINVAL, "unknown flag")
    expect_equal(errno_of(h.pwrite, buf, 0, nbd.CMD_FLAG_DF), errno.EINVAL, "DF on a write")
    extents = []
    h.block_status(size, 0, lambda *args: extents.append(args[2]) and 0)
    expect_equal(extents, [[size, 0]], "block status")
    expect_equal(errno_of(h.block_status, 0, 0, lambda *args: 0), errno.EINVAL, "status of nothing")
    h.pwrite(b"x" * 777, 333, nbd.CMD_FLAG_FUA)
    expect_equal(bytes(h.pread(779, 332)), b"\0" + b"x" * 777 + b"\0", "unaligned")
    chunks = []
    h.pread_structured(3 * MIB, 1, lambda data, offset, status, error: chunks.append(len(data)) and 0,
                       nbd.CMD_FLAG_DF)
    expect_equal(chunks, [3 * MIB], "chunks with DF")
    h.shutdown()
    server.stop()


def case_libnbd_without_structured(scratch):
    server = Server(scratch)
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    h.set_full_info(True)
    h.connect_uri(server.uri)
    expect(not h.get_structured_replies_negotiated(), "simple replies only")
    expect_equal(h.get_canonical_export_name(), "ram", "name")
    expect_equal(h.get_block_size(nbd.SIZE_PREFERRED), 4096, "preferred block size")
    data = pattern(3 * MIB, 1)
    h.pwrite(data, 5)
    expect_data(h.pread(3 * MIB, 5), data, "read back")
    h.shutdown()
    server.stop()


def case_nbdinfo(scratch):
    server = Server(scratch)
    info = json.loads(run("nbdinfo", "--json", server.uri).stdout)["exports"][0]
    expect_equal(info["export-size"], 64 * MIB, "size")
    expect_equal(info["block_size_minimum"], 1, "minimum")
    expect("ram" in run("nbdinfo", "--list", server.uri).stdout, "list")
    expect("data" in run("nbdinfo", "--map", server.uri).stdout, "map")
    expect_equal(run("nbdinfo", "--size", server.uri).stdout.strip(), str(64 * MIB), "size")
    server.stop()


def case_nbdcopy(scratch):
    image, back = make_image(scratch), scratch.file("back")
    for options in ([], ["--synchronous"], ["--connections=8", "--threads=4"],
                    ["--request-size=33554432"], ["--request-size=4096", "--requests=128"]):
        server = Server(scratch, MAX_IO=131072)
        run("nbdcopy", *options, image, server.uri)
        run("nbdcopy", *options, server.uri, back)
        run("cmp", image, back)
        server.stop()


def case_qemu_io(scratch):
    for block_size in (512, 4096):
        server = Server(scratch, BLOCK_SIZE=block_size)
        commands = ["write -P 1 0 1M", "write -P 2 100 300", "read -P 2 100 300", "read -P 1 400 5000",
                    "write -z 8000 9000", "read -P 0 8000 9000", "write -z -u 64k 64k",
                    "write -f -P 3 511 2", "read -P 3 511 2", "discard 128k 128k", "flush",
                    "read -P 1 7999 1", "aio_write -P 5 1M 1M", "aio_write -P 6 2M 1M", "aio_flush",
                    "read -P 5 1M 1M", "read -P 6 2M 1M"]
        out = run("qemu-io", "-f", "raw", *[x for c in commands for x in ("-c", c)], server.uri).stdout
        expect("failed" not in out.lower(), out)
        server.stop()


def case_qemu_img(scratch):
    image = make_image(scratch)
    server = Server(scratch)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, server.uri)
    expect("identical" in run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, server.uri).stdout,
           "compare")
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-m", "8", "-W", server.uri, scratch.file("q"))
    run("qemu-img", "compare", "-f", "raw", image, scratch.file("q"))
    run("qemu-img", "bench", "-f", "raw", "-c", "2000", "-d", "32", "-s", "4096", "-t", "none", "-w",
        server.uri)
    expect("64 MiB" in run("qemu-img", "info", server.uri).stdout, "info")
    server.stop()


def case_fio(scratch):
    server = Server(scratch, DELAY_US=100)
    fio(scratch, server.uri, "--rw=randwrite", "--bs=512-64k", "--bsrange=512-65536", "--size=16M",
        "--iodepth=32", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--bs_unaligned=1")
    fio(scratch, server.uri, "--rw=randrw", "--bs=4k", "--size=8M", "--numjobs=4",
        "--offset_increment=16M", "--iodepth=128", "--verify=crc32c", "--verify_fatal=1")
    h = handle(server)
    before = h.pread(16 * MIB, 0)
    fio(scratch, server.uri, "--rw=randtrim", "--bs=4k", "--offset=1M", "--size=8M", "--iodepth=16")
    expect(any(before[MIB:9 * MIB]), "there was nothing to trim")
    expect_data(h.pread(16 * MIB, 0), before[:MIB] + bytes(8 * MIB) + before[9 * MIB:], "the volume after trims")
    h.shutdown()
    server.stop()


def case_socket_file(scratch):
    server = Server(scratch)
    expect_equal(os.stat(server.path).st_mode & 0o777, 0o600, "mode")
    done = run(SERVER, server.path, check=False, env=scratch.env)
    expect_equal(done.returncode, 5, "exit status when the socket is taken")
    server.process.kill()
    server.process.wait()
    expect(os.path.exists(server.path), "a killed server leaves its socket")
    server = Server(scratch)  # which does not prevent the next from starting
    expect_equal(Raw(server.connect()).go().size, 64 * MIB, "the new one")
    server.stop()
    with open(scratch.file("s"), "w", encoding="utf-8") as f:
        f.write("a file of another program")
    done = run(SERVER, scratch.file("s"), check=False, env=scratch.env)
    expect(done.returncode != 0, "a file in the way is an error")
    expect(os.path.isfile(scratch.file("s")), "and stays")


def case_stdio_socket(scratch):
    h = nbd.NBD()
    h.connect_command([SERVER, "--stdio"])
    data = pattern(5 * MIB, 9)
    h.pwrite(data, 3)
    expect_data(h.pread(5 * MIB, 3), data, "read back")
    h.shutdown()


def case_stdio_pipe(scratch):
    """A whole conversation through pipes and from a file; the process ends with it."""
    script = scratch.file("script")
    with open(script, "wb") as f:
        f.write(bytes.fromhex("00000003") + b"IHAVEOPT" + bytes.fromhex("00000007 00000006 00000000 0000"))
        f.write(bytes.fromhex("25609513 0000 0001 0000000000000001 0000000000000200 00000400") + b"A" * 1024)
        f.write(bytes.fromhex("25609513 0000 0000 0000000000000002 0000000000000300 00100000"))
        f.write(bytes.fromhex("25609513 0000 0002 0000000000000003 0000000000000000 00000000"))
    for stdin in (open(script, "rb"), subprocess.Popen(["cat", script], stdout=subprocess.PIPE).stdout):
        done = subprocess.run([SERVER, "--stdio"], stdin=stdin, stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.PIPE, env=scratch.env, check=False)
        expect_equal(done.returncode, 0, done.stderr.decode())
        expect(not SANITIZER_REPORT.search(done.stderr.decode()), done.stderr.decode())
        stdin.close()
        # The read may overtake the write; what matters is that both are answered, to the last byte.
        expect_equal(len(done.stdout), 18 + 32 + 20 + 16 + 16 + (1 << 20), "bytes of the answers")


def case_inherited_socket(scratch):
    import socket
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(scratch.file("inherited"))
    listener.listen(5)
    command = f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "{SERVER}"'
    process = subprocess.Popen(["bash", "-c", command], pass_fds=[listener.fileno()], env=scratch.env,
                               stdout=subprocess.PIPE)
    expect_equal(process.stdout.readline(), b"ready\n", "ready")
    size = run("nbdinfo", "--size", f"nbd+unix:///?socket={scratch.file('inherited')}").stdout.strip()
    expect_equal(size, str(64 * MIB), "size")
    process.terminate()
    expect_equal(process.wait(PATIENCE), 0, "exit status")


run_cases([(name[5:].replace("_", " "), function)
           for name, function in list(globals().items()) if name.startswith("case_")])
