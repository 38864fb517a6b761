"""tools/quickstart in a folder of its own, with this build: it is run, or interrupted, and leaves nothing."""

import os
import signal
import subprocess

from harness import BUILD, PATIENCE, ROOT, expect, expect_equal, free_port


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read()
    except OSError:
        return b""


class Quickstart:
    def __init__(self, scratch, *arguments, image_mib):
        self.folder, self.log = scratch.file("tmp"), scratch.file("said")
        os.mkdir(self.folder)
        env = dict(scratch.env, TMPDIR=self.folder, RBLK_BUILD=BUILD, RBLK_PORT=str(free_port()),
                   RBLK_IMAGE_MIB=str(image_mib))
        with open(self.log, "wb") as log:
            self.script = subprocess.Popen([os.path.join(ROOT, "tools", "quickstart"), *arguments], env=env,
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                           cwd=scratch.path)

    def said(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()

    def goes_on(self):
        expect(self.script.poll() is None, self.said())
        return True

    def ends(self):
        """Returns what it has said. It may take as long as several waits."""
        expect_equal(self.script.wait(3 * PATIENCE), 0, f"exit status of quickstart: {self.said()}")
        self.leaves_nothing()
        return self.said()

    def interrupt(self):
        """Ctrl-C reaches all processes of the terminal; none is left, nor a file."""
        os.killpg(self.script.pid, signal.SIGINT)
        expect_equal(self.script.wait(PATIENCE), 130, "exit status")
        self.leaves_nothing()

    def leaves_nothing(self):
        own = f"TMPDIR={self.folder}".encode()
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and own in environ_of(pid)]
        expect(not left, f"processes are left: {left}")
        expect_equal(os.listdir(self.folder), [], "what is left")
