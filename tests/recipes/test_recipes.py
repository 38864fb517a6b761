#!/usr/bin/python3
"""Each recipe of docs/HACKING.md works as written: the test applies it, builds it and uses what it
adds."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, Target, Volume, expect, expect_equal, run, run_cases  # noqa: E402
from recipe import Recipe, names  # noqa: E402


def backend(scratch):
    """A backend that reads 5Ah everywhere: its key is accepted, and hosts read from it."""
    recipe = Recipe(scratch, "backend")
    recipe.build("target/rblkd")
    target = Target(scratch, ["nsid: 1, pattern: 1MiB"], rblkd=recipe.program("target/rblkd"))
    volume = Volume(target, 1)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
        "h.pwrite(b'x' * 4096, 0)\nassert h.pread(8192, 0) == b'\\x5a' * 8192")
    expect_equal([ns["kind"] for ns in target.list("namespaces")["namespaces"]], ["pattern"], "kind")
    volume.detach()
    target.stop()


def send_new(scratch, name, which):
    """The rblkd of the copy serves the command of the recipe to a host in raw verbs."""
    recipe = Recipe(scratch, name)
    recipe.build("target/rblkd")
    env = dict(scratch.env, RBLKD=recipe.program("target/rblkd"), CMOCKA_MESSAGE_OUTPUT="TAP",
               LD_PRELOAD=os.path.join(BUILD, "softrdma", "libsoftrdma.so"))
    run(os.path.join(BUILD, "tests", "recipes", "new_commands"), which, env=env)


def io_command(scratch):
    send_new(scratch, "io-command", "io")


def admin_command(scratch):
    send_new(scratch, "admin-command", "admin")


def expect_completed(recipe, program):
    """The program's help and its completion name the same subcommands."""
    done = run(recipe.program(f"tools/{program}/{program}"), "--help")
    subcommands = set(re.findall(r"^  ([a-z][a-z-]*)(?: [a-z]+)?  +\S", done.stdout, re.MULTILINE))
    with open(os.path.join(recipe.tree, "tools", "completion", program), encoding="utf-8") as f:
        texts = re.findall(r"'([^']*)'", f.read())
    expect(any(subcommands == {word for word in text.split() if not word.startswith("-")} for text in texts),
           f"the completion of {program} lacks one of {sorted(subcommands)}")


def rblk_subcommand(scratch):
    recipe = Recipe(scratch, "rblk-subcommand")
    recipe.build("tools/rblk/rblk")
    expect_equal(run(recipe.program("tools/rblk/rblk"), "greet").stdout, "hello\n", "rblk greet")
    expect_completed(recipe, "rblk")


def rblkctl_subcommand(scratch):
    """The subcommand and its method: rblkctl calls rblkd, both of the copy."""
    recipe = Recipe(scratch, "rblkctl-subcommand")
    recipe.build("target/rblkd", "tools/rblkctl/rblkctl")
    target = Target(scratch, ["nsid: 1, ram: 1MiB"], extra="tuning: {workers: 2}",
                    rblkd=recipe.program("target/rblkd"))
    rblkctl = (recipe.program("tools/rblkctl/rblkctl"), "pollers", "--socket", target.control)
    expect_equal(run(*rblkctl, env=scratch.env).stdout, "pollers: 2\n", "rblkctl pollers")
    expect_equal(json.loads(run(*rblkctl, "-o", "json", env=scratch.env).stdout), {"schema": 1, "pollers": 2},
                 "its JSON")
    expect_completed(recipe, "rblkctl")
    target.stop()


RECIPES = {
    "backend": backend,
    "io-command": io_command,
    "admin-command": admin_command,
    "rblk-subcommand": rblk_subcommand,
    "rblkctl-subcommand": rblkctl_subcommand,
}


def all_are_executed(scratch):
    expect_equal(sorted(names()), sorted(RECIPES), "recipes of HACKING.md and those that a test executes")


if __name__ == "__main__":
    run_cases([("each recipe has a test", all_are_executed), *RECIPES.items()])
