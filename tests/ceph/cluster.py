"""The cluster of tools/ceph/mini_cluster.py, with what tests do to it.

    from cluster import Cluster, missing
    with Cluster() as cluster: ...

An OSD in memory that is killed has lost its data, so tests that kill one take three.
"""

import contextlib
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "..", "tools", "ceph")]
import mini_cluster  # noqa: E402
from mini_cluster import Trouble, free_port, missing  # noqa: E402, F401
from stopped import is_stopped  # noqa: E402


class Cluster(mini_cluster.Cluster):
    def watchers(self, image):
        """Clients that have the image open for writing."""
        return "watcher=" in self.rbd("status", image).stdout

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        self.daemons.pop(name).wait()

    @contextlib.contextmanager
    def hung(self, *names):
        """The daemons are stopped meanwhile, and go on afterwards."""
        for name in names:
            self.signal(name, signal.SIGSTOP)
        for name in names:
            self.wait_for(f"{name} stands still", lambda pid=self.daemons[name].pid: is_stopped(pid))
        try:
            yield
        finally:
            for name in names:
                self.signal(name, signal.SIGCONT)
