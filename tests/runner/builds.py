"""Builds a profile, below the programs that run meanwhile."""

import os
import subprocess
import time

from program import ROOT, wait_for

NICE = ["nice", "-n", "10"]


class BuildFailed(Exception):
    """Its text is the output of the command."""


def build(plan, profile):
    """Builds the programs of this profile that the plan wants. Returns its folder and the CPU time."""
    directory = os.path.join(ROOT, "build", profile)
    native = os.path.join(ROOT, "native", profile + ".ini")
    start, cpu_s = time.monotonic(), 0
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        cpu_s += run(["meson", "setup", directory, "--native-file", native, "-Dtests=enabled"])
    cpu_s += run(["ninja", "-C", directory, "build.ninja"])  # as the sources of today want it
    needs = plan.needs(profile, directory)
    cpu_s += run(["ninja", "-C", directory, *needs]) if needs else 0
    print(f"built {profile:5} {time.monotonic() - start:6.1f} s {cpu_s:6.1f} s CPU", flush=True)
    return directory, cpu_s


def run(command):
    """Returns its CPU time."""
    process = subprocess.Popen(NICE + command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process.stdout:
        output = process.stdout.read()
    cpu_s = wait_for(process)
    if process.returncode:
        raise BuildFailed(f"{output[-8000:]}\n{' '.join(command)} failed")
    return cpu_s


def has_packages(purpose):
    """Installs the packages of this purpose (tools/packages), or says why it cannot."""
    install = subprocess.run([os.path.join(ROOT, "tools", "packages"), purpose], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(install.stdout, end="", flush=True)
    return install.returncode == 0
