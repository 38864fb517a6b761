"""Two rblkd that export one file as one subsystem: one volume, two paths. Both own it, or one of them does."""

import os

from harness import LASTING, RBLKCTL, Scratch, Target, ask, expect, expect_equal, run, wait_until

MIB = 1 << 20
GROUPS = "allow_any_host: true\n    ana_groups: [{id: 1, owner: lock}]"


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


class GroupMember(Target):
    """An rblkd of several that export the same stores; one at a time is the owner of its first group."""

    in_use = "in use"  # in the reason of one that stands by

    def group(self):
        return ask(self.control, "group_list")["groups"][0]

    def is_owner(self):
        return self.group()["state"] == "owner"

    def stands_by(self):
        """And has found that another one has the store."""
        group = self.group()
        return group["state"] == "standing by" and self.in_use in (group["reason"] or "")

    def ctl(self, *arguments, status=0):
        done = run(RBLKCTL, *arguments, "--socket", self.control, check=False, env=self.scratch.env)
        expect_equal(done.returncode, status, f"exit status of rblkctl {' '.join(arguments)}: {done.stderr}")
        return done

    def ana_states(self):
        return [portal["state"] for group in ask(self.control, "ana_list")["groups"] for portal in group["portals"]]


class Member(GroupMember):
    """A member whose store is a file; each has ids and a state directory of its own."""

    def __init__(self, scratch, number, namespaces=None, groups=GROUPS, extra=""):
        one = scratch if number == 0 else Beside(scratch, f"member{number}")
        for name in "group", "disk.img":
            path = scratch.file(name)
            if name == "group":
                os.makedirs(path, exist_ok=True)
            elif not os.path.exists(path):
                scratch.make_file(name, 8 * MIB)
        state = one.file("member-state")
        os.makedirs(state)
        namespaces = namespaces or [f"nsid: 1, file: {scratch.file('disk.img')}, {LASTING}"]
        super().__init__(one, namespaces, subsystem_extra=groups,
                         extra=f"group_directory: {scratch.file('group')}\nstate_directory: {state}\n"
                         f"controller_ids: {{min: {1 + 1000 * number}, max: {1000 + 1000 * number}}}\n{extra}")


def members(scratch):
    one, other = Member(scratch, 0), Member(scratch, 1)
    expect(one.is_owner(), "the first is the owner at once")
    wait_until(other.stands_by, "the second stands by")
    return one, other
