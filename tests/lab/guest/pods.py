# SPDX-License-Identifier: Apache-2.0
"""Real pods, from inside the guest: `pods ACTION...` with JSON on both sides.

    run      makes the pods, all at once
    wait     waits until every container has ended; adds exit codes, logs and when it was
    remove   stops and removes them; adds when that began

Input is a list of {namespace, name, uid, cgroup_parent, containers: [{name, attempt, argv,
devices}]}, or what an earlier `pods` printed.  Several actions in one command save the start of
Python.
"""

import importlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc

# crictl's variable.
ENDPOINT = os.environ.get("CONTAINER_RUNTIME_ENDPOINT", "unix:///run/containerd/containerd.sock")
IMAGE = "localhost/workload:1"
LIMIT_S = 120

# Generated when the lab is prepared; no part of the checkout.
cri: Any = importlib.import_module("runtime_pb2")
_service = cri.DESCRIPTOR.services_by_name["RuntimeService"]


class Runtime:
    """containerd's CRI: `runtime.call("StartContainer", request)`."""

    def __init__(self) -> None:
        self._channel = grpc.insecure_channel(ENDPOINT)

    def call(self, method: str, request: Any) -> Any:
        """Answer of one method; RpcError if it is refused."""
        answer = getattr(cri, _service.methods_by_name[method].output_type.name)
        call: Any = self._channel.unary_unary(
            f"/{_service.full_name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=LIMIT_S, wait_for_ready=True)


def namespaces() -> dict[str, Any]:
    """Host network, so that no network plugin is needed; no hostname may be set with it."""
    return {
        "namespace_options": cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER, ipc=cri.POD),
        "seccomp": cri.SecurityProfile(profile_type=cri.UNCONFINED),
    }


def labels(spec: dict[str, Any]) -> dict[str, str]:
    """Those that a kubelet sets."""
    return {f"io.kubernetes.pod.{key}": spec[key] for key in ("name", "namespace", "uid")}


def run(runtime: Runtime, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec, with `sandbox`, and in each container `id`, `cgroup` and `log_file`."""
    logs = Path(f"/var/log/pods/{spec['namespace']}_{spec['name']}_{spec['uid']}")
    logs.mkdir(parents=True, exist_ok=True)
    sandbox_config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=spec["name"], uid=spec["uid"], namespace=spec["namespace"]
        ),
        log_directory=str(logs),
        labels=labels(spec),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=spec["cgroup_parent"],
            security_context=cri.LinuxSandboxSecurityContext(**namespaces()),
        ),
    )
    request = cri.RunPodSandboxRequest(config=sandbox_config)
    sandbox = runtime.call("RunPodSandbox", request).pod_sandbox_id
    containers = [
        start(runtime, spec, container, sandbox, sandbox_config) for container in spec["containers"]
    ]
    return {**spec, "sandbox": sandbox, "containers": containers}


def start(
    runtime: Runtime,
    spec: dict[str, Any],
    container: dict[str, Any],
    sandbox: str,
    sandbox_config: Any,
) -> dict[str, Any]:
    """The container's spec, with `id`, `cgroup` and `log_file`."""
    name = container["name"]
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name, attempt=container["attempt"]),
        image=cri.ImageSpec(image=IMAGE),
        command=container["argv"],
        devices=[
            cri.Device(container_path=node, host_path=node, permissions="rw")
            for node in container["devices"]
        ],
        labels={**labels(spec), "io.kubernetes.container.name": name},
        log_path=f"{name}.log",
        linux=cri.LinuxContainerConfig(
            security_context=cri.LinuxContainerSecurityContext(**namespaces())
        ),
    )
    request = cri.CreateContainerRequest(
        pod_sandbox_id=sandbox, config=config, sandbox_config=sandbox_config
    )
    created = runtime.call("CreateContainer", request)
    runtime.call("StartContainer", created)
    return {
        **container,
        "id": created.container_id,
        "cgroup": cgroup_of(runtime, created.container_id),
        "log_file": f"{sandbox_config.log_directory}/{name}.log",
    }


def cgroup_of(runtime: Runtime, container_id: str) -> str:
    """Path of its cgroup; as configured if it has ended already."""
    request = cri.ContainerStatusRequest(container_id=container_id, verbose=True)
    info = json.loads(runtime.call("ContainerStatus", request).info["info"])
    try:
        return Path(f"/proc/{info['pid']}/cgroup").read_text().strip().removeprefix("0::")
    except OSError:
        return str(info["runtimeSpec"]["linux"]["cgroupsPath"])


def wait(runtime: Runtime, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, with `exit_code` and `log` in each container once all have ended."""
    return {**pod, "containers": [ended(runtime, each) for each in pod["containers"]]}


def ended(runtime: Runtime, container: dict[str, Any]) -> dict[str, Any]:
    """The container, with `exit_code`, `log` and its times in ns, once it has ended."""
    request = cri.ContainerStatusRequest(container_id=container["id"])
    while (status := runtime.call("ContainerStatus", request).status).state != cri.EXITED:
        time.sleep(0.1)
    lines = Path(container["log_file"]).read_text().splitlines()
    # A line of a CRI log: time, stream, F or P, text.
    log = "".join(f"{line.split(' ', 3)[3]}\n" for line in lines)
    times = {"started_ns": status.started_at, "finished_ns": status.finished_at}
    return {**container, **times, "exit_code": status.exit_code, "log": log}


def remove(runtime: Runtime, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, with `removed_ns`; it is gone, and may have been before."""
    removed_ns = time.time_ns()
    request = cri.PodSandboxRequest(pod_sandbox_id=pod["sandbox"])
    try:
        runtime.call("StopPodSandbox", request)
        runtime.call("RemovePodSandbox", request)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    return {**pod, "removed_ns": removed_ns}


def main() -> int:
    """Every action, each for all pods at once."""
    actions = {"run": run, "wait": wait, "remove": remove}
    runtime = Runtime()
    pods = json.load(sys.stdin)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for name in sys.argv[1:]:
            pods = list(pool.map(partial(actions[name], runtime), pods))
    print(json.dumps(pods))
    return 0


if __name__ == "__main__":
    sys.exit(main())
