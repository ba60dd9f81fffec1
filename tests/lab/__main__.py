# SPDX-License-Identifier: Apache-2.0
"""The lab from a terminal: `python -m lab COMMAND`, with `tests` on PYTHONPATH."""

import argparse
import os
import shlex
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import headers, prepare
from lab.cache import Cache, cache_root
from lab.checks import check_host
from lab.containerds import VERSIONS, containerd
from lab.debian import Apt
from lab.errors import LabError, VmGone
from lab.job import POLL_S, start_job
from lab.otelcol import otelcol
from lab.progress import say, step
from lab.prometheus import prometheus
from lab.root import guest_root
from lab.vm import Vm
from lab.wheels import xpumeter_tree

CANNOT = 69  # EX_UNAVAILABLE: this host cannot do it
INTERRUPTED = 130


def main() -> int:
    """Run one command and give its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "check", help="say whether this host can run the lab; install what it lacks"
    )
    commands.add_parser("prepare", help="make all that the tests need")
    commands.add_parser("demo", help="the whole way once: pods, kernel, Collector, Prometheus")
    vm = commands.add_parser("vm", help="run a VM until it is stopped; give it jobs with `run`")
    vm.add_argument("--kernel", default="", metavar="6.12", help="default: the suite's own")
    run = commands.add_parser("run", help="give the running VM a shell command; exit as it does")
    run.add_argument("job", nargs="+", metavar="COMMAND")
    commands.add_parser("stop", help="stop the running VM")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return carry_out(args)
    except LabError as error:
        say(f"lab: {error}")
        if error.hint:
            say(f"  {error.hint}")
        return CANNOT
    except KeyboardInterrupt:
        return INTERRUPTED


def carry_out(args: argparse.Namespace) -> int:
    """The command's exit status; LabError if this host cannot do it."""
    match args.command:
        case "check":
            check_host()
        case "prepare":
            prepare_all()
        case "demo":
            from lab.demo import demo  # needs the venv, which `check` comes before

            return demo()
        case "vm":
            return run_vm(args.kernel)
        case "run":
            return give_job(args.job[0] if len(args.job) == 1 else shlex.join(args.job))
        case "stop":
            stop_vm()
    return 0


def prepare_all() -> None:
    """Make every part, for every kernel, and forget what nobody uses any more."""
    cache = Cache(cache_root())
    with ThreadPoolExecutor(1) as beside:
        # The Collector's compiler and the guest's packages come from different places.
        building = [beside.submit(otelcol, cache)]
        building += [beside.submit(containerd, cache, version) for version in VERSIONS]
        made = prepare.parts()
        for metapackage in prepare.metapackages():
            prepare.kernel(made, metapackage)
        xpumeter_tree(cache, made.root, prepare.CHECKOUT)
        headers.every_version(cache)
        prometheus(cache)
        for each in building:
            each.result()
    cache.prune()
    say(f"lab: ready in {cache.root}")


def run_vm(short: str) -> int:
    """Boot, say how to use it, and stay until it ends or is stopped."""
    work = vm_folder()
    if vm_runs(work):
        raise LabError("a VM runs already", hint="stop it: make stop")
    made = prepare.parts()
    kernels = [prepare.kernel(made, metapackage) for metapackage in prepare.metapackages()]
    chosen = [each for each in kernels if each[0].short == short] if short else kernels
    if not chosen:
        raise LabError(
            f"no kernel {short}; there are {', '.join(each[0].short for each in kernels)}"
        )
    app = xpumeter_tree(made.cache, made.root, prepare.CHECKOUT)
    vm = Vm(made, chosen[0], work, app=app)
    try:
        with step(f"VM with {chosen[0][0].release}"):
            vm.boot()
        (work / "pid").write_text(str(os.getpid()))
        say("lab: the VM runs.  From another terminal:")
        say("  make job JOB='xpumeter devices'      the checkout as it is then")
        say("  make job JOB='workload /dev/dri/card0 submit=3 alloc=2'")
        say("Ctrl-C ends it.")
        vm.wait()
    finally:
        vm.stop()
    say("lab: the VM has ended")
    return 0


def give_job(command: str) -> int:
    """Run it in the VM with the checkout's code, print what it says, exit as it does."""
    work = vm_folder()
    cache = Cache(cache_root())
    app = xpumeter_tree(cache, guest_root(cache, Apt(cache)), prepare.CHECKOUT)
    job = start_job(work, command, lambda: vm_runs(work), XPUMETER_APP=f"/cache/{app.name}")
    shown = 0
    try:
        while running := job.running:
            shown = show(job.output, shown)
            if running and not vm_runs(work):
                raise VmGone("the VM ended during the job")
            time.sleep(POLL_S)
    except BaseException:
        if vm_runs(work):
            job.signal("TERM")
        raise
    show(job.output, shown)
    return job.wait().rc


def show(output: str, shown: int) -> int:
    """Print what is new and say how much was printed in all."""
    sys.stdout.write(output[shown:])
    sys.stdout.flush()
    return len(output)


def stop_vm() -> None:
    """End the VM of `vm`."""
    work = vm_folder()
    if not vm_runs(work):
        say("lab: no VM runs")
        return
    os.kill(int((work / "pid").read_text()), signal.SIGTERM)
    while vm_runs(work):
        time.sleep(POLL_S)


def vm_folder() -> Path:
    """Work folder of the VM that `vm` runs."""
    return cache_root() / "vm"


def vm_runs(work: Path) -> bool:
    """Whether QEMU listens for jobs there."""
    try:
        os.close(os.open(work / "port.in", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
