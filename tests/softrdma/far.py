# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts for RoCE: this process' network namespace and a second one, joined by a cable (veth).
Works for root, and for any user where unprivileged user namespaces are permitted. HERE is the
address of this side, THERE of the other, in both families."""

import os
import subprocess
import sys
import time

from foreign import PATIENCE, Program, softrdma

HERE, THERE = "10.99.0.1", "10.99.0.2"
HERE6, THERE6 = "fd99::1", "fd99::2"
ROCE = {"SOFTRDMA_ROCE": "any"}


def enter(unprivileged=False):
    """Starts this program again in a fresh network namespace; skips all tests where that is not
    permitted."""
    if os.environ.get("SOFTRDMA_TEST_NETNS"):
        return
    inside = dict(os.environ, SOFTRDMA_TEST_NETNS="1")
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if unprivileged and os.geteuid() == 0:
        unshare = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-rn"]
    probe = [*unshare, "unshare", "-n", "test", "-r", os.environ["SOFTRDMA_LIB"]]
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        print("1..0 # SKIP no network namespaces, or the build is not readable there")
        sys.exit(77)
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], inside)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def permitted(cases, without_rights):
    """All cases, or with --unprivileged those that have these names; each name is a case's."""
    cases = dict(cases)
    return [(name, cases[name]) for name in (without_rights if "--unprivileged" in sys.argv else cases)]


class OtherHost:
    """The second namespace; it lives as long as a process in it."""

    def __init__(self, mtu=1500):
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        own, end = os.readlink("/proc/self/ns/net"), time.monotonic() + PATIENCE
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == own:
            assert time.monotonic() < end
            time.sleep(0.01)
        self.enter = ["nsenter", "-t", str(self.process.pid), "-n"]
        ip("link", "set", "lo", "up")
        ip("link", "add", "far0", "mtu", str(mtu), "type", "veth",
           "peer", "name", "far1", "mtu", str(mtu), "netns", str(self.process.pid))
        for enter_it, link, v4, v6 in (([], "far0", HERE, HERE6), (self.enter, "far1", THERE, THERE6)):
            for words in (["link", "set", "lo", "up"], ["addr", "add", v4 + "/24", "dev", link],
                          ["addr", "add", v6 + "/64", "dev", link, "nodad"], ["link", "set", link, "up"]):
                subprocess.run([*enter_it, "ip", *words], check=True, capture_output=True)

    def set_mtu(self, mtu):
        for enter_it, link in (([], "far0"), (self.enter, "far1")):
            subprocess.run([*enter_it, "ip", "link", "set", link, "mtu", str(mtu)], check=True)

    def program(self, command, env=None):
        return Program(command, wrapper=[*self.enter, *softrdma()], env=dict(ROCE, **(env or {})))

    def end(self):
        self.process.kill()
        self.process.wait()


def here(command, env=None):
    return Program(command, env=dict(ROCE, **(env or {})))
