# SPDX-License-Identifier: Apache-2.0
"""Whose calls they are."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Identity:
    """What the names of a cgroup and its parents say, without asking anybody.

    Attributes:
        path: The cgroup's path from the root, `/` first.
        pod_uid: Of the outermost pod in the path.
        container_id: 64 hex digits, of the outermost container.
        unit: The systemd unit in the path of a service of the host; None in pods and containers.
    """

    path: str
    pod_uid: str | None = None
    container_id: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """What the container runtime says of one container or pod sandbox.

    `sandbox` is True for a pod's sandbox, which has no container name. What the runtime left out
    is None, never empty.
    """

    container_id: str
    sandbox: bool
    name: str | None
    pod_name: str | None
    pod_namespace: str | None
    pod_uid: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose calls these are: a container, a pod as a whole, or a service of the host.

    What is unknown is None. Two owners are one if all of this is equal: an owner becomes another
    one when its names arrive.

    Attributes:
        namespace, pod, pod_uid, container: As in Kubernetes.
        container_id: 64 hex digits.
        cgroup: Path of the cgroup; only outside pods and containers.
    """

    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    container: str | None = None
    container_id: str | None = None
    cgroup: str | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Taken once: owners are keys, and looked up in each period more often than all else.
        names = (self.namespace, self.pod, self.pod_uid, self.container)
        object.__setattr__(self, "_hash", hash((*names, self.container_id, self.cgroup)))

    def __hash__(self) -> int:
        return self._hash
