"""How many programs run at a time: as many as keep the processors busy.

Most programs wait more than they compute, so a number of programs says little. Another one begins while the
processors have time to spare, and, on a machine that others keep busy, until there are two a processor.
"""

import os
import time

BUSY = 0.85  # of all processors, over the last SAMPLE_S
SAMPLE_S = 0.5
AGE_MAX_S = 5  # of an older sample, the load says nothing about now
MOST_A_PROCESSOR = 8  # each has ports, folders and memory of its own


class Ticks:
    """The time of this machine's processors. Builds and fuzzers are niced, and give way: that time is spare."""

    def __init__(self):
        self.last = self.read()

    @staticmethod
    def read():
        """(busy, nice, all) since the machine booted; a hypervisor's share counts as busy."""
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, idle, iowait, *others = (int(word) for word in file.readline().split()[1:9])
        busy = user + system + sum(others)
        return busy, nice, busy + nice + idle + iowait

    def shares(self):
        """The shares of usual and of niced programs since the last call."""
        now = self.read()
        busy, nice, every = (new - old for new, old in zip(now, self.last))
        self.last = now
        return busy / max(1, every), nice / max(1, every)


class Pace:
    """Main thread."""

    def __init__(self, fixed=None):
        """fixed: a number of programs, instead of the measured load."""
        n_processors = len(os.sched_getaffinity(0))
        self.least = fixed or 2 * n_processors
        self.most = fixed or MOST_A_PROCESSOR * n_processors
        self.ticks = Ticks()
        self.sampled_at = time.monotonic()

    def may_begin(self, n_running):
        """Whether another program may begin now. One a sample, because its load shows in the next one."""
        if n_running < self.least:
            return True
        age_s = time.monotonic() - self.sampled_at
        if n_running >= self.most or age_s < SAMPLE_S:
            return False
        self.sampled_at += age_s
        busy, _ = self.ticks.shares()
        return age_s < AGE_MAX_S and busy < BUSY
