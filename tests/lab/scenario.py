# SPDX-License-Identifier: Apache-2.0
"""A known amount of work on real devices, and whether what was counted equals it."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.collector import Sample
from lab.pods import ContainerSpec, Made, Pod, PodSpec, counted, remove_pods, run_pods
from lab.vm import QXL, VIRTIO_GPU, Vm

VGEM = "vgem"
SERVICE = "/system.slice/media.service"
CALLS, TIME = "xpumeter_calls_total", "xpumeter_call_time_seconds_total"
OF_A_KIND = (CALLS, TIME, "xpumeter_call_active")
"""What every owner has for each kind that it called."""

UNATTRIBUTED = "xpumeter_call_unattributed_total"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Whose calls, on what, of which kind, with which result; empty where there is none."""

    namespace: str
    owner: str
    """Pod, or path of a service's cgroup."""
    container: str
    device: str
    driver: str
    kind: str
    error: str


Counts = Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Work:
    """What was made: the callers' own counts and times."""

    calls: Counts
    time_ns: Mapping[Key, int]
    pods: tuple[Pod, ...]


def nodes(vm: Vm) -> dict[str, list[str]]:
    """Device id -> its nodes: the primary one, then the render node where there is one."""
    listed = vm.run("xpumeter devices -o json")
    if listed.rc:
        raise RuntimeError(listed.output)
    return {device["id"]: sorted(device["nodes"]) for device in json.loads(listed.output)}


def do_work(vm: Vm) -> Work:
    """Three pods in two namespaces and a service of the host make their calls; then it is over.

    Submit, alloc, free, wait and other; successful ones, and submits that fail (a virtio-gpu
    without a 3D host answers ENOSYS). One pod uses two devices. One lives for less than a second
    and is removed at once.
    """
    found = nodes(vm)
    # Dumb buffers, which is all that vgem has, are refused on a render node.
    gpu, display, vgem = found[VIRTIO_GPU][-1], found[QXL][0], found[VGEM][0]
    trainer = PodSpec(
        "ml",
        "trainer-0",
        (
            _container(
                *("--pause-us", "200"),
                *(gpu, "submit=21", "alloc=40", "wait=60", "free=40", "other=7"),
                *(display, "submit=300", "alloc=25", "free=25", "other=3"),
            ),
        ),
    )
    loader = PodSpec(
        "ml", "loader", (_container("--threads", "2", vgem, "alloc=100", "free=100", "other=5"),)
    )
    brief = PodSpec("web", "thumbnail-7", (_container(gpu, "alloc=3", "wait=3", "free=3"),))

    media = vm.start(
        f"mkdir -p /sys/fs/cgroup{SERVICE} && echo 0 > /sys/fs/cgroup{SERVICE}/cgroup.procs && "
        f"exec workload {shlex.join([vgem, 'alloc=12', 'free=12', 'other=2'])}"
    )
    pods = run_pods(vm, trainer, loader, brief)
    remove_pods(vm, *(pod for pod in pods if pod.spec is brief))
    service = media.wait(60)
    if service.rc or any(each.exit_code for pod in pods for each in pod.containers):
        raise RuntimeError(f"a workload failed: {service.output} {pods}")

    devices = {path: device for device, paths in found.items() for path in paths}
    made: list[tuple[Key, Made]] = [
        (_key(pod.spec.namespace, pod.spec.name, each.name, devices[one.node], one), one)
        for pod in pods
        for each in pod.containers
        for one in counted(each.log)
    ]
    made += [
        (_key("", SERVICE, "", devices[one.node], one), one) for one in counted(service.output)
    ]
    return Work(
        calls={key: one.calls for key, one in made},
        time_ns={key: one.time_ns for key, one in made},
        pods=pods,
    )


def _container(*order: str) -> ContainerSpec:
    devices = tuple(word for word in order if word.startswith("/dev/"))
    return ContainerSpec("main", ("/workload", *order), devices)


def _key(namespace: str, owner: str, container: str, device: str, made: Made) -> Key:
    return Key(namespace, owner, container, device, made.driver, made.kind, made.error)


def key_of(sample: Sample) -> Key:
    """The key of a sample of the Collector."""
    labels = sample.labels
    return Key(
        namespace=labels.get("k8s_namespace_name", ""),
        owner=labels.get("k8s_pod_name") or labels.get("process_linux_cgroup", ""),
        container=labels.get("k8s_container_name", ""),
        device=labels.get("hw_id", ""),
        driver=labels.get("xpumeter_driver", ""),
        kind=labels.get("xpumeter_call_kind", ""),
        error=labels.get("error_type", ""),
    )


def shown(samples: Iterable[Sample]) -> dict[Key, int]:
    """Calls that a Collector shows; two series of one key would be a fault, and are an error."""
    found: dict[Key, int] = {}
    for sample in samples:
        if sample.name != CALLS:
            continue
        key = key_of(sample)
        if key in found:
            raise ValueError(f"two series for {key}")
        found[key] = int(sample.value)
    return found


def unattributed(samples: Iterable[Sample]) -> int:
    """Calls without an owner or a device."""
    return int(sum(sample.value for sample in samples if sample.name == UNATTRIBUTED))


def differences(made: Counts, found: Counts) -> Sequence[str]:
    """One line for each key in which the two differ; none if they are equal."""
    return [
        f"{key}: {found.get(key, 0)} counted, {made.get(key, 0)} made"
        for key in sorted(made.keys() | found.keys())
        if found.get(key, 0) != made.get(key, 0)
    ]
