# SPDX-License-Identifier: Apache-2.0
"""Real runtimes of three generations list their containers; the agent's client reads them."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from lab import prepare
from lab.containerds import VERSIONS, containerd
from lab.errors import LabError
from lab.pods import ContainerSpec, Pod, PodSpec, remove_pods, run_pods
from lab.require import cannot_run
from lab.vm import Vm

pytestmark = [
    pytest.mark.vm,
    # One kernel: what a runtime lists does not depend on it.
    pytest.mark.parametrize("vm", prepare.metapackages()[:1], indirect=True),
]

OWN = "/run/containerd/containerd.sock"
BESIDE = "/run/k3s/containerd/containerd.sock"
START_S = 60  # quiet: 4 s

LIST = """
import dataclasses, json, sys
from xpumeter.source.cri import Runtime
endpoint, *wanted = sys.argv[1:]
runtime = Runtime(None if endpoint == "auto" else endpoint, timeout_s=30)
records = [dataclasses.asdict(each) for each in runtime.records(wanted).values()]
print(json.dumps({"lists": runtime.lists, "records": records}))
"""

SLEEP = ContainerSpec("main", ("/bin/sleep", "600"))
INIT = ContainerSpec("init", ("/bin/true",))
SIDECAR = ContainerSpec("sidecar", ("/bin/sleep", "600"))
EPHEMERAL = ContainerSpec("debugger-x7k2", ("/bin/sleep", "600"))
CRASHED = ContainerSpec("main", ("/bin/true",))
AGAIN = replace(SLEEP, attempt=1)

TRAINER = PodSpec("ml", "trainer-0", (INIT, SIDECAR, CRASHED, AGAIN, EPHEMERAL))
# Deleted and made again by its StatefulSet: the same name, another pod.
NAMESAKE = replace(TRAINER, containers=(SLEEP,), own_uid="36a50509-eb46-41e0-b3d6-f24ca02da9dc")
# What the kubelet hands on of a static pod: the hash of its manifest for a uid.
STATIC = PodSpec("kube-system", "etcd-lab", (SLEEP,), own_uid="437ce1cc3a060dda3304ccfd8cfe483a")


@dataclass(frozen=True, slots=True)
class Lists:
    """A runtime's socket, and the pods that were made there."""

    socket: str
    pods: tuple[Pod, ...]


def listed(vm: Vm, endpoint: str, *wanted: str) -> tuple[int, dict[str, tuple[str | None, ...]]]:
    """Lists that it took; container id -> namespace, pod, uid, container, of what was listed."""
    (vm.work / "list.py").write_text(LIST)
    done = vm.run(
        f'PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/list.py {endpoint} {" ".join(wanted)}'
    )
    assert done.rc == 0, done.output
    told = json.loads(done.output)
    names = ("pod_namespace", "pod_name", "pod_uid", "name")
    return told["lists"], {
        each["container_id"]: tuple(each[name] for name in names) for each in told["records"]
    }


def expected(pods: Sequence[Pod]) -> dict[str, tuple[str | None, ...]]:
    """The same, of what was made."""
    return {
        each.id: (pod.spec.namespace, pod.spec.name, pod.spec.uid, each.name)
        for pod in pods
        for each in pod.containers
    }


@pytest.fixture(scope="module", params=["the guest's own", *VERSIONS])
def lists(request: pytest.FixtureRequest, vm: Vm, made: prepare.Parts) -> Iterator[Lists]:
    """One runtime: the guest's own, or one that is started beside it."""
    if request.param not in VERSIONS:
        pods = run_pods(vm, TRAINER, NAMESAKE, STATIC, wait=False)
        yield Lists(OWN, pods)
        remove_pods(vm, *pods)
        return
    try:
        folder = containerd(made.cache, request.param)
    except LabError as error:
        cannot_run("vm", error)
    job = vm.start(f"containerd-beside /cache/{folder.name} {BESIDE}")
    end = time.monotonic() + START_S
    images = f"ctr -a {BESIDE} -n k8s.io images import --digests=false /opt/lab/images.tar"
    while vm.run(f"[ -S {BESIDE} ] && {images}").rc:
        assert job.running, job.output
        assert time.monotonic() < end, job.output
        time.sleep(0.2)
    pods = run_pods(vm, TRAINER, NAMESAKE, STATIC, wait=False, socket=BESIDE)
    yield Lists(BESIDE, pods)
    remove_pods(vm, *pods, socket=BESIDE)
    job.signal("TERM")
    job.wait(30)
    vm.run(f"umount /var/lib/beside; rm -f {BESIDE}")


def test_every_container_has_its_names_from_one_list(vm: Vm, lists: Lists) -> None:
    """Init, sidecar, ephemeral, static, exited, restarted; two pods of one name stay two."""
    made = expected(lists.pods)

    asked, found = listed(vm, lists.socket, *made)

    assert (asked, found) == (1, made)


def test_a_sandbox_s_id_takes_a_second_list(vm: Vm, lists: Lists) -> None:
    """Sandboxes have the pod's names and no container's."""
    made = expected(lists.pods)
    sandboxes = {
        pod.sandbox: (pod.spec.namespace, pod.spec.name, pod.spec.uid, None) for pod in lists.pods
    }

    asked, found = listed(vm, lists.socket, lists.pods[0].sandbox)

    assert (asked, found) == (2, made | sandboxes)


def test_the_runtime_that_has_pods_is_found(vm: Vm, lists: Lists) -> None:
    """By itself, also where another one runs that has none."""
    made = expected(lists.pods)

    _, found = listed(vm, "auto", *made)

    assert found == made
