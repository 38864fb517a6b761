"""The rblkd that takes over from another: for tests of rblkctl upgrade."""

import array
import ctypes
import json
import os
import select
import shutil
import signal
import socket

from harness import PATIENCE, RBLKCTL, RBLKD, SOFTRDMA, Failure, expect_equal, run, wait_until

# A successor is the child of a process that ends; so that a test can wait for it, it becomes the test's.
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
FDS_MAX = 32


class Child:
    """The process that has taken over, in place of the Popen of the harness's Target."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        return self.wait(os.WNOHANG)

    def wait(self, timeout=0):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG if timeout == os.WNOHANG else 0)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def upgrade(target, status=0):
    """Returns the answer; the target is the process that serves afterwards."""
    done = run(RBLKCTL, "upgrade", "-o", "json", check=False, timeout=PATIENCE,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl upgrade: {done.stdout}{done.stderr}")
    follow(target)
    return json.loads(done.stdout)


def follow(target):
    pid = wait_until(target.status, "rblkd answers")["pid"]
    if pid != target.process.pid:
        expect_equal(target.process.wait(PATIENCE), 0, "exit status of the rblkd before")
        target.process = Child(pid)


# In place of a program: gives the socket of its predecessor away, and becomes rblkd with the one that it gets for it.
CHANGELING = """#!/usr/bin/python3 -IS
import array, os, socket, sys
fd = int(os.environ["RBLKD_PREDECESSOR"])
with socket.socket(socket.AF_UNIX) as s:
    s.connect({path!r})
    s.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    program, (answer,), _, _ = s.recvmsg(4096, socket.CMSG_SPACE(4))
os.dup2(array.array("i", answer[2])[0], fd)
os.execv(program, [program] + sys.argv[1:])
"""


def receive(source):
    """b"", []: the other end has gone, maybe with messages that it had not read."""
    try:
        return source.recvmsg(4096, socket.CMSG_SPACE(4 * FDS_MAX))[:2]
    except ConnectionResetError:
        return b"", []


class Between:
    """The messages of two rblkd go through the test, which can hold any of them. To the two it is as one socket: what
    one has sent arrives although it has died since, and then its end. old, new: the ends here; pid: the new process."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.n_programs = 0
        self.path = scratch.file("between")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(PATIENCE)
        scratch.env["SOFTRDMA_LIB"] = SOFTRDMA
        shutil.copy(RBLKD, scratch.file("rblkd"))
        self.old = self.new = self.held = None
        self.pid = 0

    def program(self):
        """The path of a program that is rblkd, and no process's yet."""
        self.n_programs += 1
        path = self.scratch.file(f"rblkd.{self.n_programs}")
        os.link(self.scratch.file("rblkd"), path)
        return path

    def interpose(self, pid):
        """The next successor of that process comes by here."""
        path = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "w", encoding="ascii") as f:
            f.write(CHANGELING.format(path=self.path))
        os.chmod(path, 0o755)

    def meet(self):
        """Waits for the new process, which begins."""
        s, _ = self.listener.accept()
        with s:
            _, (given,), _, _ = s.recvmsg(1, socket.CMSG_SPACE(4))
            self.old = socket.socket(fileno=array.array("i", given[2])[0])
            self.new, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.pid = array.array("i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            with theirs:
                s.sendmsg([self.program().encode()],
                          [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])

    def pass_until(self, word):
        """Holds the first message of that word, which has been sent and not received. None: until one has ended."""
        while True:
            ready, _, _ = select.select([self.old, self.new], [], [], PATIENCE)
            if not ready:
                raise Failure(f"neither says a word before {word}")
            for source in ready:
                data, fds = receive(source)
                if not data:
                    self.close()
                    if word:
                        raise Failure(f"one has ended before {word}")
                    return
                self.held = (self.new if source is self.old else self.old, data, fds)
                if word and data.split()[0] == word.encode():
                    return
                self.let_go()

    def let_go(self):
        if not self.held:
            return
        to, data, fds = self.held
        self.held = None
        try:
            to.sendmsg([data], fds)
        except OSError:
            pass  # it has died
        for _, _, numbers in fds:
            for fd in array.array("i", numbers):
                os.close(fd)

    def finish(self):
        """To the end, which comes by itself."""
        self.let_go()
        self.pass_until(None)

    def close(self):
        self.old.close()
        self.new.close()


# Its successor says these words, and ends; without a predecessor it is rblkd.
FALSE_SUCCESSOR = """#!/usr/bin/python3
import os, socket, sys
fd = os.environ.pop("RBLKD_PREDECESSOR", None)
if fd is None:
    os.execve({rblkd!r}, [{rblkd!r}] + sys.argv[1:], os.environ)
s = socket.socket(fileno=int(fd))
for word in {words!r}:
    s.send(word.encode())
    while s.recv(65536) in (b"handover", b"memory"):
        pass
"""


def own_program(scratch):
    """The path of an rblkd that can be replaced."""
    path = scratch.file("rblkd")
    scratch.env["SOFTRDMA_LIB"] = SOFTRDMA
    shutil.copy(RBLKD, path)
    return path


def replace_program(path, *words):
    """By one whose successor says those words, each when the one before was answered, and ends."""
    os.unlink(path)
    with open(path, "w", encoding="utf-8") as f:
        f.write(FALSE_SUCCESSOR.format(rblkd=RBLKD, words=words))
    os.chmod(path, 0o755)
