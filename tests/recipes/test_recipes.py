#!/usr/bin/python3
"""Each recipe of docs/HACKING.md works as it stands there: it is applied, built, and what it adds is used."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import Target, Volume, expect_equal, run, run_cases  # noqa: E402
from recipe import Recipe, names  # noqa: E402


def backend(scratch):
    """A backend that reads 5Ah everywhere: its key is taken, and hosts read from it."""
    recipe = Recipe(scratch, "backend")
    recipe.build("target/rblkd")
    target = Target(scratch, ["nsid: 1, pattern: 1MiB"], rblkd=recipe.program("target/rblkd"))
    volume = Volume(target, 1)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
        "h.pwrite(b'x' * 4096, 0)\nassert h.pread(8192, 0) == b'\\x5a' * 8192")
    expect_equal([ns["kind"] for ns in target.list("namespaces")["namespaces"]], ["pattern"], "kind")
    volume.detach()
    expect_equal(target.stop(), 0, "exit status of rblkd")


RECIPES = {
    "backend": backend,
}


def all_are_executed(scratch):
    expect_equal(sorted(names()), sorted(RECIPES), "recipes of HACKING.md and those that a test executes")


if __name__ == "__main__":
    run_cases([("each recipe has a test", all_are_executed), *RECIPES.items()])
