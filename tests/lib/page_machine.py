"""The machine that the manuals speak of: the build lies where packages put it, the addresses are this machine's, and
/etc, /srv, /tmp and the like are its own. Each case has one: mount, network and pid namespaces, which end with it."""

import errno
import fcntl
import json
import os
import stat
import struct
import subprocess
import sys
from contextlib import contextmanager

from harness import BUILD, Failure, ROOT, Scratch, expect_no_reports, show_logs

ADDRESSES = ("192.0.2.1", "198.51.100.1")
OWN = ("etc", "srv", "var/lib")
NODES = ("null", "zero", "full", "random", "urandom", "tty", "loop-control")
# linux/loop.h
LOOP_CTL_GET_FREE, LOOP_SET_FD, LOOP_SET_STATUS64, LO_FLAGS_AUTOCLEAR, LOOP_MAJOR = 0x4C82, 0x4C00, 0x4C04, 4, 7
MARK = "RBLK_PAGE_MACHINE"
OWN_SPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def known_to_meson(of_what):
    with open(os.path.join(BUILD, "meson-info", f"intro-{of_what}.json"), encoding="utf-8") as f:
        return json.load(f)


def lay_out(folder):
    """All that is installed, as links, below folder, which is to be /usr, and below the build's own prefix there, where
    programs look for the software provider. systemctl only succeeds: no services run here."""
    installed, options = known_to_meson("installed"), known_to_meson("buildoptions")
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    for source, to in installed.items():
        if not os.path.isabs(source):  # a link: to the library whose name goes on
            source = next(name for name in installed if os.path.isabs(name) and os.path.basename(name).startswith(source))
        for root in {"/usr", prefix}:
            install(source, folder + os.path.join(root, os.path.relpath(to, prefix)).removeprefix("/usr"), prefix)
    with open(os.path.join(folder, "bin", "systemctl"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n")
    os.chmod(os.path.join(folder, "bin", "systemctl"), 0o755)


def install(source, path, prefix):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not path.endswith(".pc"):
        return os.symlink(source, path)
    with open(source, encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        out.write(f.read().replace(f"prefix={prefix}\n", "prefix=/usr\n"))


def own_devices(folder):
    """A /dev without the devices of this machine."""
    os.mkdir(folder)
    for name in filter(lambda name: os.path.exists(f"/dev/{name}"), NODES):
        os.mknod(f"{folder}/{name}", 0o666 | stat.S_IFCHR, os.stat(f"/dev/{name}").st_rdev)
        os.chmod(f"{folder}/{name}", 0o666)
    for name in ("shm", "pts"):
        os.mkdir(f"{folder}/{name}")
        run("mount", "--bind", f"/dev/{name}", f"{folder}/{name}")
    for name, to in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{to}", f"{folder}/{name}")
    run("mount", "--rbind", folder, "/dev")


def own_tmp(folder):
    """An empty /tmp, but for the tree and the build where they lie there."""
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    for kept in (ROOT, BUILD):
        if os.path.commonpath((kept, "/tmp")) == "/tmp":
            inside = os.path.join(folder, os.path.relpath(kept, "/tmp"))
            os.makedirs(inside, exist_ok=True)
            run("mount", "--bind", kept, inside)
    run("mount", "--rbind", folder, "/tmp")


def make(folder):
    run("mount", "-t", "tmpfs", "tmpfs", folder)
    lay_out(f"{folder}/usr")
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={folder}/usr:/usr", "/usr")
    for name in OWN:
        upper, work = f"{folder}/{name}/upper", f"{folder}/{name}/work"
        os.makedirs(upper)
        os.makedirs(work)
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", f"/{name}")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    own_devices(f"{folder}/dev")
    own_tmp(f"{folder}/tmp")
    os.makedirs("/etc/rblk", exist_ok=True)
    os.makedirs("/srv/rblk", exist_ok=True)
    with open("/etc/hosts", "w", encoding="ascii") as f:
        f.write("127.0.0.1 localhost\n::1 localhost\n")
    run("ip", "link", "set", "lo", "up")
    for address in ADDRESSES:
        run("ip", "address", "add", f"{address}/32", "dev", "lo")


def is_possible():
    """Whether this machine can make another: namespaces, and overlays in them."""
    trial = "mount -t overlay overlay -o lowerdir=/usr/share:/usr/lib /usr/share"
    return not os.geteuid() and not subprocess.run([*OWN_SPACES, "sh", "-c", trial], check=False,
                                                   stderr=subprocess.DEVNULL).returncode


def cases(named):
    """The cases, each of which runs its function on a machine of its own; skipped where none can be made."""
    if is_possible():
        return [(name, case(function)) for name, function in named]
    return [(f"{name} # SKIP needs root, namespaces and overlays", lambda scratch: None) for name, _ in named]


def case(function):
    """The case that runs the function in another process, which begins with go_on."""
    def on_it(scratch):
        folder = scratch.file("machine")
        os.mkdir(folder)
        env = dict(scratch.env, **{MARK: f"{folder}:{function.__name__}"})
        done = subprocess.run([*OWN_SPACES, sys.executable, *sys.argv], check=False, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Failure(done.stdout)
    return on_it


def go_on(functions):
    """In a process that a case started: makes the machine, runs the function there, and ends the process."""
    if MARK not in os.environ:
        return
    folder, name = os.environ.pop(MARK).rsplit(":", 1)
    os.environ.pop("TMPDIR", None)
    make(folder)
    scratch = Scratch()
    try:
        next(function for function in functions if function.__name__ == name)(scratch)
        expect_no_reports(scratch)
    except Failure as failure:
        sys.exit(f"{failure}{show_logs(scratch)}")
    sys.exit(0)


def environment(scratch):
    """The environment of a shell there: root's, at a terminal of 80 columns. The name of the scratch folder marks its
    processes."""
    kept = {key: value for key, value in scratch.env.items() if key.endswith("SAN_OPTIONS")}
    return dict(kept, PATH=PATH, HOME=scratch.path, LANG="C.UTF-8", COLUMNS="80")


@contextmanager
def device(path, file):
    """A block device with the bytes of the file, there alone. It goes with its last descriptor, so with the program
    at the latest."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open("/dev/loop-control", "rb") as control, open(file, "r+b") as bytes_of:
        while True:
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(LOOP_MAJOR, number))
            loop = os.open(path, os.O_RDWR)
            try:
                fcntl.ioctl(loop, LOOP_SET_FD, bytes_of.fileno())
                break
            except OSError as error:  # another program was faster
                os.close(loop)
                os.unlink(path)
                if error.errno != errno.EBUSY:
                    raise
        fcntl.ioctl(loop, LOOP_SET_STATUS64, struct.pack("=52xI176x", LO_FLAGS_AUTOCLEAR))
        try:
            yield
        finally:
            os.close(loop)
