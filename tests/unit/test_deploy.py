# SPDX-License-Identifier: Apache-2.0
"""deploy/: what the API server would take, and what a cluster's administrator relies on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from xpumeter import cli, config
from xpumeter.config import Config, Extensions, HealthCheck
from xpumeter.serving import HEALTH, READY

MANIFEST = Path(__file__).parents[2] / "deploy/daemonset.yaml"
PORT = 13133
VERSIONS = ("1.29", "1.33", "1.37")


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    """Objects of the manifest by kind."""
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    by_kind = {document["kind"]: document for document in documents}
    assert len(by_kind) == len(documents)
    return by_kind


@pytest.fixture(scope="module")
def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Spec of the DaemonSet's pods."""
    spec: dict[str, Any] = objects["DaemonSet"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def attach(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["initContainers"]
    assert container["name"] == "attach"
    return dict(container)


@pytest.fixture(scope="module")
def run(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    assert container["name"] == "run"
    return dict(container)


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    """Paths inside a container, and whether they are read-only."""
    return {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_server_takes_every_object(
    objects: dict[str, dict[str, Any]], version: str
) -> None:
    """No object has a key or a type that the schemas of these releases do not know."""
    for document in objects.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_an_unknown_key_is_found(objects: dict[str, dict[str, Any]]) -> None:
    """The schemas are strict: a misspelt key would not pass."""
    wrong = {**objects["DaemonSet"], "specification": {}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_objects_belong_together(
    objects: dict[str, dict[str, Any]], pod: dict[str, Any]
) -> None:
    """One namespace; a selector that finds the pods; a ConfigMap that is the one mounted."""
    namespace = objects["Namespace"]["metadata"]["name"]
    daemonset = objects["DaemonSet"]
    configmap = objects["ConfigMap"]["metadata"]
    labels = daemonset["spec"]["template"]["metadata"]["labels"]

    assert daemonset["metadata"]["namespace"] == configmap["namespace"] == namespace
    assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert {"name": "config", "configMap": {"name": configmap["name"]}} in pod["volumes"]


def test_the_configuration_loads(
    objects: dict[str, dict[str, Any]], run: dict[str, Any], tmp_path: Path
) -> None:
    """What the ConfigMap holds is a right configuration, and only says what it changes or shows."""
    (text,) = objects["ConfigMap"]["data"].values()
    file = tmp_path / "xpumeter.yaml"
    file.write_text(text)

    probed = replace(Config(), extensions=Extensions(HealthCheck(("", PORT))))
    assert config.load(file, {}) == probed

    (endpoint,) = (
        each["value"] for each in run["env"] if each["name"] == "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    endpoint = endpoint.replace("$(HOST_IP)", "192.0.2.7")
    loaded = config.load(file, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert loaded.exporter
    assert loaded.exporter.endpoint == "http://192.0.2.7:4317"


def test_the_commands_are_those_of_the_command_line(
    objects: dict[str, dict[str, Any]], attach: dict[str, Any], run: dict[str, Any]
) -> None:
    """Both containers run a command that exists, with the file that the ConfigMap becomes."""
    (name,) = objects["ConfigMap"]["data"]
    for container in (attach, run):
        program, command, *rest = container["command"]
        assert (program, command) == ("xpumeter", container["name"])
        assert rest == ["--config", f"/etc/xpumeter/{name}"]
        with pytest.raises(SystemExit) as done:
            cli.main([command, *rest, "--help"])
        assert done.value.code == 0


def test_run_holds_no_capability(run: dict[str, Any]) -> None:
    """All are dropped, none is added."""
    assert run["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_attach_holds_three_capabilities(attach: dict[str, Any]) -> None:
    """All are dropped, then those that attaching needs are added."""
    assert attach["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["BPF", "PERFMON", "SYS_ADMIN"],
    }


def test_no_container_is_privileged(attach: dict[str, Any], run: dict[str, Any]) -> None:
    """Nor can it become so; its root is read-only."""
    for container in (attach, run):
        context = container["securityContext"]
        assert "privileged" not in context
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True


def test_the_default_seccomp_profile_is_on(
    pod: dict[str, Any], attach: dict[str, Any], run: dict[str, Any]
) -> None:
    """For the whole pod; no container has a weaker one."""
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (attach, run):
        assert "seccompProfile" not in container["securityContext"]


def test_the_pod_shares_no_namespace_of_the_host(pod: dict[str, Any]) -> None:
    """Neither network, nor processes, nor IPC."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        assert not pod.get(key)


def test_the_api_server_is_out_of_reach(pod: dict[str, Any]) -> None:
    """The pod has no token for it."""
    assert pod["automountServiceAccountToken"] is False


def test_each_may_write_in_one_place(attach: dict[str, Any], run: dict[str, Any]) -> None:
    """Attach to bpffs, run to its state; all else is read-only, and no device node is mounted."""
    writable = [
        [path for path, read_only in mounts(each).items() if not read_only]
        for each in (attach, run)
    ]
    assert writable == [["/sys/fs/bpf"], ["/run/xpumeter"]]
    assert not any(path.startswith("/dev") for path in {**mounts(attach), **mounts(run)})


def test_only_run_reaches_the_runtime(attach: dict[str, Any], run: dict[str, Any]) -> None:
    """The container with capabilities cannot talk to the runtime, and the other way round."""
    assert "/run/containerd" in mounts(run)
    assert "/run/containerd" not in mounts(attach)


def test_no_folder_of_the_host_must_exist(pod: dict[str, Any]) -> None:
    """A host without one of them still starts the pod: a `type` would refuse it."""
    folders = [volume["hostPath"] for volume in pod["volumes"] if "hostPath" in volume]

    assert folders
    assert all(set(folder) == {"path"} for folder in folders)


def test_the_downward_api_tells_node_and_address(run: dict[str, Any]) -> None:
    """Both come from the pod's own fields, and before what is made of them."""
    names = [each["name"] for each in run["env"]]
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in run["env"]
        if "valueFrom" in each
    }

    assert fields == {"K8S_NODE_NAME": "spec.nodeName", "HOST_IP": "status.hostIP"}
    assert names.index("HOST_IP") < names.index("OTEL_EXPORTER_OTLP_ENDPOINT")


def test_an_update_never_runs_two_agents_on_a_node(objects: dict[str, dict[str, Any]]) -> None:
    """Two would write the same series."""
    strategy = objects["DaemonSet"]["spec"]["updateStrategy"]["rollingUpdate"]

    assert strategy["maxSurge"] == 0


def test_every_node_gets_one(pod: dict[str, Any]) -> None:
    """Taints of accelerator nodes keep it away from none."""
    assert {"operator": "Exists"} in pod["tolerations"]


def test_both_containers_are_the_same_image(attach: dict[str, Any], run: dict[str, Any]) -> None:
    """Pins are read by the version that made them; no registry is invented."""
    assert attach["image"] == run["image"]
    assert "/" not in run["image"]
    assert attach["imagePullPolicy"] == run["imagePullPolicy"] == "IfNotPresent"


def test_the_kubelet_asks_the_pages_that_are_there(run: dict[str, Any]) -> None:
    """Liveness is the loop's, readiness the first collection's; both by the pod's own address."""
    (port,) = run["ports"]
    assert port == {"name": "health", "containerPort": PORT}
    for kind, path in (
        ("startupProbe", READY),
        ("livenessProbe", HEALTH),
        ("readinessProbe", READY),
    ):
        # Without a host the kubelet takes the pod's address.
        assert run[kind]["httpGet"] == {"path": path, "port": "health"}
        assert run[kind]["timeoutSeconds"] >= 5


def test_a_slow_start_is_no_reason_to_restart(run: dict[str, Any]) -> None:
    """A board that takes a minute to import Python's modules still starts."""
    probe = run["startupProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] >= 120


def test_memory_is_bounded(attach: dict[str, Any], run: dict[str, Any]) -> None:
    """Both ask for what they need and have a limit."""
    for container in (attach, run):
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_the_last_batch_has_time(pod: dict[str, Any]) -> None:
    """Twice what the agent waits for Collector, its own metrics and runtime at most."""
    assert 2 * (5 + 5 + 4) < pod["terminationGracePeriodSeconds"] <= 30
