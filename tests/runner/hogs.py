"""Busy loops beside the tests: a program that fails there assumes how fast the machine is."""

import contextlib
import os
import signal


def start_hog(cpu):
    """A process that computes on this CPU until it is killed, or until this program ends."""
    parent = os.getpid()
    hog = os.fork()
    if hog:
        return hog
    os.sched_setaffinity(0, {cpu})
    while os.getppid() == parent:
        for _ in range(10000000):
            pass
    os._exit(0)


@contextlib.contextmanager
def hogs(n, cpus=None):
    """n busy loops on each of these CPUs (all)."""
    pids = [start_hog(cpu) for cpu in cpus or os.sched_getaffinity(0) for _ in range(n)]
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
