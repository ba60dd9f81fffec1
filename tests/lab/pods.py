# SPDX-License-Identifier: Apache-2.0
"""Real pods in a guest, and what their workloads say they did."""

import json
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lab.vm import Vm

LIMIT_S = 180  # quiet: 7 s for three pods, most of it Python's start under emulation


class Layout(StrEnum):
    """How a kubelet would name the pod's cgroup."""

    CGROUPFS = "/kubepods/besteffort/pod{uid}"
    # slices without systemd: the container's own directory keeps its plain name
    SLICE = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid_}.slice/."


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container: what it runs, and the nodes (`/dev/dri/card0`) it may open."""

    name: str
    argv: tuple[str, ...]
    devices: tuple[str, ...] = ()
    attempt: int = 0
    """How often a container of this name was there before."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One pod to make."""

    namespace: str
    name: str
    containers: tuple[ContainerSpec, ...]
    layout: Layout = Layout.CGROUPFS
    own_uid: str = ""

    @property
    def uid(self) -> str:
        """Its own, else the same for the same name, so that a test can say it."""
        return self.own_uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.{self.namespace}"))


@dataclass(frozen=True, slots=True)
class Container:
    """A container that was started; the rest once it was waited for. Times are the guest's."""

    name: str
    id: str
    cgroup: str
    exit_code: int | None
    log: str
    started_ns: int
    finished_ns: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that was made; `told` is what the guest's `pods` printed of it."""

    spec: PodSpec
    sandbox: str
    containers: tuple[Container, ...]
    told: dict[str, Any]

    @property
    def removed_ns(self) -> int | None:
        """When its removal began."""
        when: int | None = self.told.get("removed_ns")
        return when


@dataclass(frozen=True, slots=True)
class Made:
    """Calls of one kind and outcome that a workload made on one node, by its own count."""

    node: str
    driver: str
    kind: str
    error: str
    calls: int
    time_ns: int


def workload(*order: str, device: Sequence[str] = (), name: str = "main") -> ContainerSpec:
    """Container that runs `workload ORDER...`; its devices are the nodes in the order."""
    nodes = tuple(word for word in order if word.startswith("/dev/"))
    return ContainerSpec(name, ("/workload", *order), tuple(device) or nodes)


def counted(log: str) -> tuple[Made, ...]:
    """What a workload printed."""
    return tuple(Made(**json.loads(line)) for line in log.splitlines() if line.startswith("{"))


def run_pods(
    vm: Vm, *specs: PodSpec, wait: bool = True, remove: bool = False, socket: str = ""
) -> tuple[Pod, ...]:
    """Make pods, all at once; by default return when every container has ended.

    By the guest's own containerd, or by the one at `socket`.

    Raises:
        RuntimeError: containerd refused; the message has its words.
    """
    told = [
        {
            "namespace": spec.namespace,
            "name": spec.name,
            "uid": spec.uid,
            "cgroup_parent": spec.layout.format(uid=spec.uid, uid_=spec.uid.replace("-", "_")),
            "containers": [
                {
                    "name": each.name,
                    "attempt": each.attempt,
                    "argv": each.argv,
                    "devices": each.devices,
                }
                for each in spec.containers
            ],
        }
        for spec in specs
    ]
    actions = ["run", *["wait"] * wait, *["remove"] * remove]
    return _pods(vm, actions, specs, told, socket)


def wait_pods(vm: Vm, *pods: Pod) -> tuple[Pod, ...]:
    """The pods once every container has ended, with exit codes and logs."""
    return _pods(vm, ["wait"], [pod.spec for pod in pods], [pod.told for pod in pods])


def remove_pods(vm: Vm, *pods: Pod, socket: str = "") -> tuple[Pod, ...]:
    """Stop and remove these pods; the pods, with the time of that."""
    return _pods(vm, ["remove"], [pod.spec for pod in pods], [pod.told for pod in pods], socket)


def _pods(
    vm: Vm,
    actions: Sequence[str],
    specs: Sequence[PodSpec],
    told: Sequence[dict[str, Any]],
    socket: str = "",
) -> tuple[Pod, ...]:
    where = f"export CONTAINER_RUNTIME_ENDPOINT=unix://{socket}; " if socket else ""
    done = vm.run(
        f"{where}echo {shlex.quote(json.dumps(told))} | pods {' '.join(actions)}", LIMIT_S
    )
    if done.rc:
        raise RuntimeError(f"pods {' '.join(actions)}: {done.output}")
    answers: list[dict[str, Any]] = json.loads(done.output.splitlines()[-1])
    return tuple(_pod(spec, answer) for spec, answer in zip(specs, answers, strict=True))


def _pod(spec: PodSpec, told: dict[str, Any]) -> Pod:
    containers = tuple(
        Container(
            each["name"],
            each["id"],
            each["cgroup"],
            each.get("exit_code"),
            each.get("log", ""),
            each.get("started_ns", 0),
            each.get("finished_ns", 0),
        )
        for each in told["containers"]
    )
    return Pod(spec, told["sandbox"], containers, told)
