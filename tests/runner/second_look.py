"""A second try for what has failed: a program that a busy machine has failed passes alone.

Such a program is unsteady: it counts as passed, and the end of the run names it with the output of its failure, so
that it is mended. More than a few of them in one run are no weather, nor are the failures of verdict.NEVER_WEATHER.
"""

import os
import shutil

import machines
from program import ROOT

UNSTEADY = os.path.join(ROOT, "build", "unsteady")
MAX_UNSTEADY = 2


def look_again(outcomes, is_strict):
    """Runs failed programs again, one at a time. Returns the outcomes that count, and the first ones of those
    programs that passed now."""
    shutil.rmtree(UNSTEADY, ignore_errors=True)
    failed = [o for o in outcomes if o.counts.failed]
    why_not = reason_not_to(failed, is_strict)
    if why_not or not failed:
        print(f"\n{why_not}" if why_not else "", flush=True)
        return outcomes, []
    final, unsteady = [o for o in outcomes if not o.counts.failed], []
    for first in failed:
        print(f"\nagain, alone: {first.program.title}", flush=True)
        second = machines.run_again(first.program) if first.program.suite == "vm" else first.program.run()
        second.report()
        final.append(second)
        if not second.counts.failed:
            unsteady.append(first)
    return final, unsteady


def reason_not_to(failed, is_strict):
    """Why a second try would not make this run pass."""
    grave = [o for o in failed if o.grave]
    if grave:
        return "no second try: " + "; ".join(f"{o.program.title}: {o.grave}" for o in grave)
    if is_strict and failed:
        return "no second try: --strict"
    if len(failed) > MAX_UNSTEADY:
        return f"no second try: {len(failed)} programs failed, and more than {MAX_UNSTEADY} are no weather"
    return ""


def report(unsteady):
    for first in unsteady:
        print(f"\nunsteady: {first.program.title} failed and passed alone; its whole output: {first.keep(UNSTEADY)}")
        print("\n".join([f"    {note}" for note in first.notes] + first.explanation()))
