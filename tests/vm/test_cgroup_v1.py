# SPDX-License-Identifier: Apache-2.0
"""Where the controllers are on cgroup v1, names come from there, and never from v2's tree."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lab import prepare
from lab.agent import Agent
from lab.collector import Collector, Sample
from lab.errors import LabError
from lab.require import cannot_run
from lab.vm import Vm

pytestmark = pytest.mark.vm

ARRIVAL_S = 60
CALLS, UNATTRIBUTED = "xpumeter_calls_total", "xpumeter_call_unattributed_total"
UID = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
ID = "05b9a3305caeae2f1fa49fbc09456cd8bf5749209bf5a1a315078377f57665be"
OTHER_ID = ID[::-1]
POD = f"kubepods/burstable/pod{UID}"
VGEM = "/dev/dri/card2"

NAMES = """
import json
from pathlib import Path
from xpumeter.source.pins import Pins
names = Pins(Path("/sys/fs/bpf/xpumeter")).cgroups().values()
print(json.dumps([[name.cgroup_id, name.name, name.dead] for name in names]))
"""


@pytest.fixture(scope="module", params=prepare.metapackages())
def v1_vm(
    request: pytest.FixtureRequest,
    made: prepare.Parts,
    app: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Vm]:
    """A VM of its own: a controller can leave v2 only while nobody has a cgroup there."""
    try:
        kernel = prepare.kernel(made, request.param)
        work = tmp_path_factory.mktemp("v1") / "work"
        running = Vm(made, kernel, work, app=app, variables=["lab_containerd=0"])
        running.boot()
    except LabError as error:
        cannot_run("vm", f"{error}\n{error.hint}")
    try:
        yield running
    finally:
        running.stop()


def do(vm: Vm, command: str) -> str:
    """Output of a command in the guest; it must end well."""
    done = vm.run(command)
    assert done.rc == 0, done.output
    return done.output


def call_from(vm: Vm, *cgroups: str, calls: int) -> None:
    """So many calls of a process that is in these cgroups."""
    enter = "".join(f"mkdir -p {each} && echo 0 > {each}/cgroup.procs && " for each in cgroups)
    do(vm, f"{enter} exec workload --speed {calls} {VGEM}")


def names(vm: Vm) -> dict[int, tuple[str, bool]]:
    """What the kernel has of each cgroup: name, and whether it is dead."""
    (vm.work / "names.py").write_text(NAMES)
    told = do(vm, 'PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/names.py')
    return {cgroup_id: (name, dead) for cgroup_id, name, dead in json.loads(told)}


def until(
    collector: Collector, arrived: Callable[[dict[str, float]], bool]
) -> tuple[Sequence[Sample], dict[str, float]]:
    """Samples, and calls by owner or reason, once they are as expected or the time is over."""
    end = time.monotonic() + ARRIVAL_S
    while True:
        samples = [each for each in collector.scrape() if each.name in (CALLS, UNATTRIBUTED)]
        calls = {
            each.labels.get("xpumeter_reason")
            or each.labels.get("container_id")
            or each.labels["process_linux_cgroup"]: each.value
            for each in samples
        }
        if arrived(calls) or time.monotonic() > end:
            return samples, calls
        time.sleep(0.2)


@pytest.mark.parametrize("controller", ["memory", "pids"])
def test_pods_of_a_v1_hierarchy_are_named_by_it(
    v1_vm: Vm,
    controller: str,
    otelcol_program: Path,
    prometheus_config: Path,
    tmp_path: Path,
) -> None:
    """A pod and a service get their names; who is in the hierarchy's root gets v2's of nobody.

    Debian's Linux 6.12 has no memory controller for v1: there this is what v2 is for.
    """
    v1 = f"/tmp/{controller}"
    mounted = v1_vm.run(f"mkdir {v1} && mount -t cgroup -o {controller} none {v1}").rc == 0
    assert mounted or (controller, v1_vm.kernel.short) == ("memory", "6.12")
    if not mounted:
        return

    with Collector(otelcol_program, prometheus_config, tmp_path) as collector:
        agent = Agent(v1_vm, collector.otlp_endpoint)
        agent.attach()
        try:
            agent.start()
            call_from(v1_vm, f"{v1}/{POD}/{ID}", "/sys/fs/cgroup/other.service", calls=5)
            call_from(v1_vm, f"{v1}/media.service", calls=3)
            call_from(v1_vm, f"/sys/fs/cgroup/{POD}/{OTHER_ID}", calls=2)
            samples, calls = until(collector, lambda now: sum(now.values()) == 10)
            agent.stop()
        finally:
            agent.detach()

    assert calls == {ID: 5, "/media.service": 3, "cgroup_v1": 2}
    (pod,) = (each for each in samples if each.labels.get("container_id") == ID)
    assert pod.labels["k8s_pod_uid"] == UID


def test_a_cgroup_of_another_hierarchy_that_goes_ends_nobody(v1_vm: Vm) -> None:
    """Each hierarchy counts its cgroups from 1, so the same number is somebody else's there."""
    v1, v2 = "/tmp/pids/many", "/sys/fs/cgroup"
    # Each file of a cgroup takes a number too, and each controller of v2 brings its own, so that
    # sooner or later two cgroups have the same.
    made = do(
        v1_vm,
        f"mount | grep -q '/tmp/pids type cgroup' && mkdir {v1} && "
        f"for i in $(seq 500); do mkdir {v1}/$i; done; "
        f"for c in none $(cat {v2}/cgroup.controllers); do "
        f"  [ $c = none ] || echo +$c > {v2}/cgroup.subtree_control; "
        f"  for i in $(seq 12); do mkdir {v2}/many-$c-$i; done; "
        f"done; ls -id {v1}/*/ {v2}/many-*/",
    )
    places: dict[int, list[str]] = {}
    for line in made.splitlines():
        id_text, place = line.split()
        places.setdefault(int(id_text), []).append(place.rstrip("/"))
    number, (same_in_v1, same_in_v2) = next(
        (number, sorted(found, reverse=True)) for number, found in places.items() if found[1:]
    )
    assert same_in_v1.startswith(v1)

    do(v1_vm, "xpumeter attach")
    try:
        call_from(v1_vm, same_in_v1, calls=1)
        name = same_in_v1.rpartition("/")[2]
        do(v1_vm, f"rmdir {same_in_v2}")
        assert names(v1_vm)[number] == (name, False)

        do(v1_vm, f"rmdir {same_in_v1}")
        assert names(v1_vm)[number] == (name, True)
    finally:
        do(v1_vm, "xpumeter detach")
