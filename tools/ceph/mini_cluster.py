#!/usr/bin/python3
"""A real Ceph cluster in a folder of its own, on 127.0.0.1: monitors, and OSDs in memory. For the quickstart
and for tests (tests/ceph/cluster.py).

    from mini_cluster import Cluster
    with Cluster() as cluster: ...

    tools/ceph/mini_cluster.py FOLDER [--osds N] [--mons N]     # by hand: until Ctrl-C or SIGTERM

It has a pool "rbd" and a user client.rblk, and needs neither root nor systemd. Two seconds and 80 MiB with
one of each. All of it ends with the program, and the folder is removed.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph", "ceph-authtool", "monmaptool", "rbd")
PATIENCE = 120

# A client that lives renews its watch at each tick, which by default comes after 5 s: more rarely than
# this cluster forgets one.
CONFIG = """[global]
fsid = {fsid}
mon_host = {hosts}
public_addr = 127.0.0.1
run_dir = {folder}
admin_socket = {folder}/$name.$pid.asok
log_file = {folder}/$name.log
keyring = {folder}/keyring
mon_data = {folder}/$name
osd_data = {folder}/$name
osd_pool_default_size = {copies}
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {bytes}
osd_mon_shutdown_timeout = 1
osd_client_watch_timeout = 4
objecter_tick_interval = 1
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 1
mon_data_avail_crit = 1
mon_mgr_mkfs_grace = 1000000
mon_osd_min_down_reporters = 1
auth_allow_insecure_global_id_reclaim = false
paxos_propose_interval = 0.05
paxos_min_wait = 0.02
rbd_default_features = 5
"""


def missing():
    """The first program that is not installed, or None."""
    return next((name for name in PROGRAMS if not shutil.which(name)), None)


def free_port():
    """Below the ephemeral range, as a monitor keeps its port over a restart."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


class Trouble(Exception):
    """The cluster does not do what is needed; the message says what."""


class Cluster:
    """Monitors m0... and OSDs 0...; daemons are named "mon.m0" and "osd.0". A short folder, because
    the paths of sockets are limited."""

    def __init__(self, osds=1, mons=1, folder=None, size=1 << 31):
        self.folder = folder or tempfile.mkdtemp(prefix="ceph.")
        self.conf = os.path.join(self.folder, "ceph.conf")
        self.osds = [f"osd.{i}" for i in range(osds)]
        self.mons = [f"mon.m{i}" for i in range(mons)]
        self.size = size
        self.daemons = {}
        self.is_ending = False  # a signal handler may set it: a start then ends at its next step

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    # ---- commands -----------------------------------------------------------------------------

    def go_on(self):
        if self.is_ending:
            raise Trouble("ended while it was starting")

    def run(self, *command, check=True, timeout=PATIENCE):
        self.go_on()
        done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=timeout)
        if check and done.returncode:
            raise Trouble(f"{' '.join(map(str, command))}: {done.stderr[-1500:]}")
        return done

    def ceph(self, *arguments, check=True):
        return self.run("ceph", "-c", self.conf, "--connect-timeout", "20", *arguments, check=check)

    def rbd(self, *arguments, check=True):
        return self.run("rbd", "-c", self.conf, *arguments, check=check)

    def image(self, name, size="64M", *options):
        self.rbd("create", "--size", size, *options, name)
        return name

    # ---- daemons ------------------------------------------------------------------------------

    def start(self, name):
        kind, own = name.split(".")
        with open(os.path.join(self.folder, name + ".out"), "ab") as out:
            self.daemons[name] = subprocess.Popen(
                [f"ceph-{kind}", "-c", self.conf, "-i", own, "-f"], stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True)

    def signal(self, name, number):
        self.daemons[name].send_signal(number)

    def wait_for(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.go_on()
            for name, process in self.daemons.items():
                if process.poll() is not None:
                    raise Trouble(f"{name} has ended: {self.tail(name)}")
            if time.monotonic() > deadline:
                raise Trouble(f"{what}: not within {PATIENCE} s")
            time.sleep(0.05)

    def tail(self, name):
        with open(os.path.join(self.folder, name + ".out"), encoding="utf-8", errors="replace") as f:
            return f.read()[-1500:]

    # ---- up and down --------------------------------------------------------------------------

    def file(self, name):
        return os.path.join(self.folder, name)

    def add_key(self, name, *caps):
        options = [part for kind, cap in caps for part in ("--cap", kind, cap)]
        self.run("ceph-authtool", self.file("keyring"), "-n", name, "--gen-key", *options)

    def write_config(self, ports, fsid):
        hosts = ",".join(f"[v2:127.0.0.1:{port}/0]" for port in ports)
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(fsid=fsid, hosts=hosts, folder=self.folder, bytes=self.size,
                                  copies=min(len(self.osds), 3)))

    def make_keys(self):
        self.run("ceph-authtool", "--create-keyring", self.file("keyring"))
        self.add_key("mon.", ("mon", "allow *"))
        self.add_key("client.admin", ("mon", "allow *"), ("osd", "allow *"), ("mgr", "allow *"))
        self.add_key("client.rblk", ("mon", "profile rbd"), ("osd", "profile rbd"))
        for name in self.osds:
            self.add_key(name, ("mon", "allow profile osd"), ("osd", "allow *"))

    def make_mons(self, ports, fsid):
        addresses = [part for name, port in zip(self.mons, ports)
                     for part in ("--addv", name[4:], f"[v2:127.0.0.1:{port}/0]")]
        self.run("monmaptool", "--create", "--fsid", fsid, "--set-min-mon-release", "pacific", *addresses,
                 self.file("monmap"))
        for name in self.mons:
            os.mkdir(self.file(name))
            self.run("ceph-mon", "-c", self.conf, "--mkfs", "-i", name[4:], "--monmap", self.file("monmap"),
                     "--keyring", self.file("keyring"))
            self.start(name)

    def make_osds(self):
        for i, name in enumerate(self.osds):
            own = str(uuid.uuid4())
            os.mkdir(self.file(name))
            self.run("ceph-osd", "-c", self.conf, "-i", i, "--mkfs", "--osd-uuid", own)
            self.ceph("osd", "new", own, i)
            self.start(name)
        self.wait_for("OSDs", lambda: self.ceph("osd", "dump").stdout.count(" up ") >= len(self.osds))

    def up(self):
        ports, fsid = [free_port() for _ in self.mons], str(uuid.uuid4())
        os.makedirs(self.folder, exist_ok=True)
        self.write_config(ports, fsid)
        self.make_keys()
        self.make_mons(ports, fsid)
        self.make_osds()
        self.ceph("osd", "pool", "create", "rbd", "8")
        self.ceph("osd", "pool", "application", "enable", "rbd", "rbd")
        self.rbd("create", "--size", "1M", "rbd/probe")  # returns when the pool takes writes
        self.rbd("rm", "rbd/probe")
        return self

    def down(self):
        for kind in ("osd", "mon"):  # an OSD waits for a monitor that has gone first
            ending = [name for name in self.daemons if name.startswith(kind)]
            for name in ending:
                self.signal(name, signal.SIGCONT)
                self.signal(name, signal.SIGTERM)
            for name in ending:
                self.end(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self, name):
        process = self.daemons.pop(name)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description="A small Ceph cluster on this machine, until Ctrl-C or SIGTERM.")
    parser.add_argument("folder", help="for its files; it is removed at the end")
    parser.add_argument("--osds", type=int, default=1)
    parser.add_argument("--mons", type=int, default=1)
    args = parser.parse_args()
    if missing():
        sys.exit(f"{missing()} is not installed: tools/packages ceph")
    cluster = Cluster(args.osds, args.mons, os.path.abspath(args.folder))

    def end(*_):
        cluster.is_ending = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        with cluster:
            print(f"export CEPH_CONF={cluster.conf}", flush=True)
            while not cluster.is_ending:
                time.sleep(0.1)
    except Trouble as trouble:
        if not cluster.is_ending:
            sys.exit(str(trouble))


if __name__ == "__main__":
    main()
