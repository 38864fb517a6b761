#!/usr/bin/python3
"""Each recipe of docs/HACKING.md works as written: the test applies it, builds it and uses what it
adds."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, RBLKCTL, ROOT, Target, Volume, expect, expect_equal, run, run_cases  # noqa: E402
from recipe import Recipe, names  # noqa: E402


def backend(scratch):
    """A backend that reads one byte everywhere: its keys are accepted, and hosts read from it."""
    recipe = Recipe(scratch, "backend")
    recipe.build("target/rblkd")
    target = Target(scratch, ["nsid: 1, pattern: 1MiB", "nsid: 2, pattern: 1MiB, pattern_byte: 66"],
                    rblkd=recipe.program("target/rblkd"))
    for nsid, byte in ((1, "5a"), (2, "42")):
        volume = Volume(target, nsid)
        run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
            f"h.pwrite(b'x' * 4096, 0)\nassert h.pread(8192, 0) == b'\\x{byte}' * 8192")
        volume.detach()
    expect_equal([ns["kind"] for ns in target.list("namespaces")["namespaces"]], ["pattern"] * 2, "kinds")
    expect_own_key(target)
    target.stop()


def expect_own_key(target):
    """A change of pattern_byte is named; a value beyond its bounds and one beside another kind are refused."""
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    for before, after, says in (("pattern_byte: 66", "pattern_byte: 67", "pattern_byte: 66 -> 67"),
                                ("pattern_byte: 66", "pattern_byte: 256", "pattern_byte must be between 0 and 255, not 256"),
                                ("pattern: 1MiB,", "ram: 1MiB,", "pattern_byte is for pattern only")):
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(text.replace(before, after))
        done = run(RBLKCTL, "diff", "--socket", target.control, check=False)
        expect(says in done.stdout + done.stderr, f"{says}: {done.stdout}{done.stderr}")


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


def expect_completed(recipe, program, subcommand):
    """Its completion offers the subcommand, without a line for it."""
    completion = os.path.join(recipe.tree, "tools", "completion", program)
    offered = run(os.path.join(ROOT, "tests", "packaging", "complete.sh"), completion,
                  recipe.program(f"tools/{program}/{program}"), "").stdout
    expect(subcommand in offered.split(), f"the completion of {program} offers {offered.split()}")


def rblk_subcommand(scratch):
    recipe = Recipe(scratch, "rblk-subcommand")
    recipe.build("tools/rblk/rblk")
    expect_equal(run(recipe.program("tools/rblk/rblk"), "greet").stdout, "hello\n", "rblk greet")
    expect_completed(recipe, "rblk", "greet")


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
    expect_completed(recipe, "rblkctl", "pollers")
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
