#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stock storage programs over softrdma, with their data checked: fio's rdma engine, tgtd's iSER
target with libiscsi. And programs that a container separates: a clear refusal or success, never
a hang. SOFTRDMA_LIB names the library."""

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading

from foreign import (Failure, HERE, Program, SANITIZER, Skip, enter_own_network, free_port, listens, need, run,
                     softrdma, wait_until)

MIB = 1 << 20
ISER_PORT = 3260  # tgtd's option for another one does not work
TARGET = "iqn.2026-01.example"
INITIATOR = "iqn.2007-10.com.github:sahlberg:libiscsi:"  # what libiscsi's programs are called


# ---- fio ----------------------------------------------------------------------------

def fio(verb):
    """Without the verb "send": fio connects with no RNR retries and posts its receives after it
    has accepted, so on any RDMA device it is a matter of luck whether a first message finds
    one."""
    need("fio")
    port = free_port()
    common = ["--ioengine=rdma", f"--port={port}", "--bs=64k", "--size=8m", "--iodepth=4",
              "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--thread"]
    with tempfile.TemporaryDirectory() as folder:
        server = Program(["fio", "--name=target", *common, "--rw=read"], cwd=folder)
        try:
            wait_until(lambda: listens(port), "fio listens", server)
            client = Program(["fio", "--name=host", *common, "--rw=write", f"--verb={verb}",
                              f"--hostname={HERE}", "--do_verify=0"], cwd=folder)
            try:
                client.expect_success()
                server.expect_success()
            finally:
                client.end()
        finally:
            server.end()
    for program in server, client:
        if "err= 0" not in program.said():
            raise Failure(str(program))


# ---- iSER ---------------------------------------------------------------------------

class Tgtd:
    """tgtd with one logical unit, a file."""

    def __init__(self, size):
        need("tgtd", "tgtadm", "iscsi-inq", "iscsi-perf")
        self.folder = tempfile.mkdtemp(prefix="softrdma-tgtd.")
        if listens(ISER_PORT):
            raise Skip(f"port {ISER_PORT} is taken")
        self.disk = os.path.join(self.folder, "disk")
        self.env = {"TGT_IPC_SOCKET": os.path.join(self.folder, "socket")}
        with open(self.disk, "wb") as f:
            f.truncate(size)
        self.program = Program(["tgtd", "-f"], env=self.env)
        self.url = f"iscsi://{HERE}:{ISER_PORT}/{TARGET}/1?iser"

    def start(self):
        wait_until(lambda: self.admin("iser", "--op", "show", "--mode", "sys") == 0, "tgtd answers", self.program)
        for command in (
                ["--op", "new", "--mode", "target", "-T", TARGET],
                ["--op", "new", "--mode", "logicalunit", "--lun", "1", "-b", self.disk],
                ["--op", "bind", "--mode", "target", "-I", "ALL"],
                *(["--op", "bind", "--mode", "target", "-Q", INITIATOR + name]
                  for name in ("iscsi-inq", "iscsi-perf", "copy"))):
            if self.admin("iser", "--tid", "1", *command):
                raise Failure(f"tgtadm {' '.join(command)}: {self.program}")

    def admin(self, driver, *arguments):
        return subprocess.run(["tgtadm", "--lld", driver, *arguments], check=False, timeout=20,
                              env=dict(os.environ, **self.env), capture_output=True).returncode

    def stop(self):
        self.program.end()
        shutil.rmtree(self.folder)


one_tgtd = threading.Lock()  # for the port


def iscsi_program(*command):
    """libiscsi assumes that the memory it allocates for a connection is zero."""
    asan = os.environ.get("ASAN_OPTIONS", "")
    env = {"MALLOC_PERTURB_": "255",  # malloc() fills with the complement, mallopt(3)
           "ASAN_OPTIONS": f"{asan}:malloc_fill_byte=0:max_malloc_fill_size=65536"}
    tsan = SANITIZER and "tsan" in SANITIZER
    return Program(command, env=env, wrapper=softrdma(before=[os.environ["ZEROED_MALLOC"]] if tsan else ()))


def with_tgtd(function):
    def wrapper():
        with one_tgtd:
            target = Tgtd(16 * MIB)
            try:
                target.start()
                function(target)
            except Failure as e:
                raise Failure(f"{e}\n{target.program}") from None
            finally:
                target.stop()
    return wrapper


@with_tgtd
def iser(target):
    inq = iscsi_program("iscsi-inq", target.url)
    inq.expect_success()
    if "Peripheral Device Type:DIRECT_ACCESS" not in inq.said():
        raise Failure(str(inq))
    perf = iscsi_program("iscsi-perf", "-i", INITIATOR + "iscsi-perf", "-t", "1", "-m", "8", "-b", "8", target.url)
    perf.expect_success()
    if "iops" not in perf.said():
        raise Failure(str(perf))


@with_tgtd
def iser_copy(target):
    iscsi_program(sys.executable, os.path.abspath(__file__), "--copy", target.url, target.disk).expect_success()


class Iscsi:
    """The calls of libiscsi that a copy needs. Runs under softrdma."""

    def __init__(self, url):
        try:
            self.lib = ctypes.CDLL("libiscsi.so.7")
        except OSError:
            raise Skip("libiscsi is not installed") from None
        for name in "iscsi_create_context", "iscsi_parse_full_url", "iscsi_get_error", \
                "iscsi_write10_sync", "scsi_cdb_read10", "iscsi_scsi_command_sync":
            getattr(self.lib, name).restype = ctypes.c_char_p if "error" in name else ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.iscsi_create_context((INITIATOR + "copy").encode()))
        parsed = self.lib.iscsi_parse_full_url(self.context, url.encode())
        if not parsed:
            raise self.failure("parsing")
        # struct iscsi_url: portal[256], target[256], ...
        portal, target = ctypes.string_at(parsed), ctypes.string_at(parsed + 256)
        self.lib.iscsi_set_targetname(self.context, target)
        self.lib.iscsi_set_session_type(self.context, 2)  # normal
        if self.lib.iscsi_full_connect_sync(self.context, portal, 1):
            raise self.failure("connecting")

    def failure(self, what):
        return Failure(f"{what}: {self.lib.iscsi_get_error(self.context).decode()}")

    def check(self, task, what):
        if not task or ctypes.cast(task, ctypes.POINTER(ctypes.c_int))[0]:  # first member: the status
            raise self.failure(what)
        self.lib.scsi_free_scsi_task(ctypes.c_void_p(task))

    def write(self, lba, data):
        self.check(self.lib.iscsi_write10_sync(self.context, 1, ctypes.c_uint32(lba), data,
                                               ctypes.c_uint32(len(data)), 512, 0, 0, 0, 0, 0), "writing")

    def read(self, lba, length):
        data = ctypes.create_string_buffer(length)
        task = self.lib.scsi_cdb_read10(ctypes.c_uint32(lba), ctypes.c_uint32(length), 512, 0, 0, 0, 0, 0)
        self.lib.scsi_task_add_data_in_buffer(ctypes.c_void_p(task), length, data)
        self.check(self.lib.iscsi_scsi_command_sync(self.context, 1, ctypes.c_void_p(task), None), "reading")
        return data.raw


def copy(url, disk):
    """Writes random data by iSER, compares the target's file, reads it by iSER again."""
    data = os.urandom(4 * MIB)
    session = Iscsi(url)
    at, sizes = 0, [512, 4096, 65536, 131072, 8192]
    while at < len(data):
        size = min(sizes[at // 512 % len(sizes)], len(data) - at)
        session.write(at // 512, data[at:at + size])
        at += size
    with open(disk, "rb") as f:
        if f.read(len(data)) != data:
            raise Failure("wrong data in the target's file")
    for at in range(0, len(data), 131072):
        if session.read(at // 512, 131072) != data[at:at + 131072]:
            raise Failure(f"wrong data: read at {at}")


# ---- containers ---------------------------------------------------------------------

def across(namespace):
    """A server here, a client in another namespace: they connect, or both soon report that they
    cannot."""
    need("rping", "unshare")
    wrapper = {"network": ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"],
               "pid": ["unshare", "-p", "-f", "--mount-proc", "--kill-child"]}[namespace]
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode:
        raise Skip("no namespaces here")
    port = free_port()
    server = Program(["rping", "-s", "-a", HERE, "-p", str(port), "-C", "3"])
    try:
        wait_until(lambda: listens(port), "rping listens", server)
        client = Program(["rping", "-c", "-a", HERE, "-p", str(port), "-C", "3"], wrapper=[*wrapper, *softrdma()])
        try:
            status = client.wait()
        finally:
            client.end()
        if status < 0:
            raise Failure(f"the client crashed: {status}: {client}")
        if status == 0:
            server.expect_success()
        elif not client.said().strip():
            raise Failure("the client does not say why it failed")
    finally:
        server.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--copy"]:
        copy(*sys.argv[2:])
        sys.exit(0)
    enter_own_network()
    sys.exit(run([
        ("fio, RDMA WRITE, verified", functools.partial(fio, "write")),
        ("fio, RDMA READ, verified", functools.partial(fio, "read")),
        ("iSER: tgtd, iscsi-inq, iscsi-perf", iser),
        ("iSER: a verified copy", iser_copy),
        ("a client in another network namespace", functools.partial(across, "network")),
        ("a client in another pid namespace", functools.partial(across, "pid")),
    ]))
