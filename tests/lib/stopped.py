"""Whether a process is stopped."""

import os


def is_stopped(pid):
    """Whether each of its threads stands still: SIGSTOP takes a while to reach the last one."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as f:
            if f.read().rpartition(")")[2].split()[0] not in "Tt":
                return False
    return True
