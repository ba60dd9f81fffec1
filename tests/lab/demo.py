# SPDX-License-Identifier: Apache-2.0
"""The whole way once, on real parts: from a pod's ioctl to a line of Prometheus.

A stock kernel in a VM counts the calls of real containers, containerd names them, a real Collector
receives them and shows them to Prometheus, and the numbers must equal those of the workloads.
"""

import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lab import prepare, scenario
from lab.agent import Agent
from lab.cache import Cache, cache_root
from lab.collector import Collector, Sample
from lab.otelcol import otelcol
from lab.progress import say, step
from lab.scenario import Key, Work
from lab.vm import Vm
from lab.wheels import xpumeter_tree
from xpumeter.export import table

ARRIVAL_S = 60  # quiet: 3 s; the agent exports each second here
CONFIG = prepare.CHECKOUT / "otel-collector/prometheus.yaml"
HEADER = (
    *("NAMESPACE", "POD", "CONTAINER", "DEVICE", "DRIVER", "KIND"),
    *("CALLS", "FAILED", "TIME", "THE POD SAYS"),
)


def demo() -> int:
    """Run it; 0 if every call was counted and named, else 1."""
    began = time.monotonic()
    with ThreadPoolExecutor(1) as beside:
        # The Collector's compiler and the guest's packages come from different places.
        building = beside.submit(otelcol, Cache(cache_root()))
        made = prepare.parts()
        kernel = prepare.kernel(made, prepare.metapackages()[0])
        app = xpumeter_tree(made.cache, made.root, prepare.CHECKOUT)
        program = building.result()
    work_folder = made.cache.root / "demo"
    shutil.rmtree(work_folder, ignore_errors=True)
    (work_folder / "collector").mkdir(parents=True)

    vm = Vm(made, kernel, work_folder / "vm", app=app)
    with Collector(program, CONFIG, work_folder / "collector") as collector:
        with step(f"VM with kernel {kernel[0].release}: DRM devices, containerd"):
            vm.boot()
        try:
            code = _measure(vm, collector)
        finally:
            vm.stop()
    say(f"demo: {time.monotonic() - began:.0f} s")
    return code


def _measure(vm: Vm, collector: Collector) -> int:
    agent = Agent(vm, collector.otlp_endpoint)
    with step("xpumeter devices"):
        devices = vm.run("xpumeter devices").output
    say(_indented(devices))
    with step("xpumeter attach"):
        attached = agent.attach()
    say(_indented(attached))
    with step("xpumeter run, without any capability"):
        agent.start()
    with step("three pods and a service of the host make calls"):
        work = scenario.do_work(vm)
    with step("the Collector shows them"):
        samples = _arrived(collector, work)
    uses = agent.footprint()
    say(
        f"    the agent: {uses.rss_mib:.0f} MiB, {uses.threads} threads, "
        f"capabilities {uses.capabilities:#x}"
    )
    with step("SIGTERM, detach"):
        agent.stop()
        agent.detach()

    print("\nWhat Prometheus would scrape from the Collector:\n")
    print(_prometheus(collector.text()))
    print("\nWhat it says, beside what the workloads counted themselves:\n")
    print(table.render(HEADER, _rows(samples, work)))
    return _verdict(samples, work)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _arrived(collector: Collector, work: Work) -> Sequence[Sample]:
    """Samples once all calls are there, or when that takes too long."""
    until = time.monotonic() + ARRIVAL_S
    while True:
        samples = collector.scrape()
        if time.monotonic() > until or not scenario.differences(
            work.calls, scenario.shown(samples)
        ):
            return samples
        time.sleep(0.2)


def _prometheus(text: str) -> str:
    """The counters, without comments."""
    return "\n".join(line for line in text.splitlines() if line.startswith("xpumeter_call"))


def _rows(samples: Sequence[Sample], work: Work) -> list[list[str]]:
    """One row for each owner, device and kind."""
    found = scenario.shown(samples)
    times = {
        scenario.key_of(sample): sample.value for sample in samples if sample.name == scenario.TIME
    }
    said: dict[Key, list[str]] = defaultdict(list)
    for key, calls in sorted(work.calls.items()):
        said[replace(key, error="")].append(f"{calls} {key.error}".strip())
    rows = []
    for key in sorted({replace(key, error="") for key in found.keys() | work.calls.keys()}):
        failed = sum(
            calls for one, calls in found.items() if one.error and replace(one, error="") == key
        )
        rows.append(
            [
                *(key.namespace, key.owner, key.container, key.device, key.driver, key.kind),
                *(str(found.get(key, 0) + failed), str(failed)),
                f"{times.get(key, 0) * 1000:.1f} ms",
                ", ".join(said[key]) or "nothing",
            ]
        )
    return rows


def _verdict(samples: Sequence[Sample], work: Work) -> int:
    found = scenario.shown(samples)
    wrong = list(scenario.differences(work.calls, found))
    if nameless := scenario.unattributed(samples):
        wrong.append(f"{nameless} calls without an owner")
    counted, made = sum(found.values()), sum(work.calls.values())
    print()
    for line in wrong:
        print(f"  {line}")
    verdict = "NOT EQUAL" if wrong else "all named"
    print(f"{counted} calls counted, {made} made, {verdict}", flush=True)
    return 1 if wrong else 0
