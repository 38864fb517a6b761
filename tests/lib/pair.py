"""Two rblkd that export one file as one subsystem: one volume, two paths."""

import os

from harness import LASTING, Scratch, Target


class Beside(Scratch):
    """A folder in that of the case, for a second rblkd."""

    def __init__(self, scratch, name):  # pylint: disable=super-init-not-called
        self.path = scratch.file(name)
        os.makedirs(self.path)
        self.env = dict(scratch.env, RBLK_STATE_DIR=self.file("state"))
        os.makedirs(self.file("state"))


def pair(scratch, namespace=None, more="", **env):
    """namespace: the second's, if it is another one; more: keys of the namespace; env: of the second."""
    image = scratch.make_file("disk.img", 64 << 20)
    line = f"nsid: 1, file: {image}, shared: true, {LASTING}{more}"
    subsystem = "allow_any_host: true\n    serial: pair"
    other = Beside(scratch, "right")
    other.env.update(env)
    right = Target(other, [namespace or line], subsystem_extra=subsystem,
                   extra="controller_ids: {min: 1000, max: 1999}")
    referral = f"discovery: {{referrals: [{{address: 127.0.0.1, port: {right.port}}}]}}"
    left = Target(scratch, [line], subsystem_extra=subsystem,
                  extra=f"controller_ids: {{min: 1, max: 999}}\n{referral}")
    return left, right
