# SPDX-License-Identifier: Apache-2.0
"""The lab itself: what the other tests stand on is what it says it is."""

import socket
import threading

import pytest

from lab.job import JobTimeout
from lab.pods import Layout, PodSpec, counted, remove_pods, run_pods, wait_pods, workload
from lab.vm import HOST, QXL, VIRTIO_GPU, Vm

pytestmark = pytest.mark.vm

NODES = {"/dev/dri/card0": "virtio_gpu", "/dev/dri/card1": "qxl", "/dev/dri/card2": "vgem"}

ORDERS = {
    "/dev/dri/card0": "submit=7 alloc=50 free=49 wait=20 other=6",
    "/dev/dri/card1": "submit=8 alloc=12 free=12 other=1",
    "/dev/dri/card2": "alloc=9 free=5 other=3",
}
MADE = {
    "/dev/dri/card0": {
        ("submit", "ENOSYS"): 7,
        ("alloc", ""): 50,
        ("free", ""): 49,
        ("wait", ""): 20,
        ("other", ""): 6,
    },
    "/dev/dri/card1": {("submit", ""): 8, ("alloc", ""): 12, ("free", ""): 12, ("other", ""): 1},
    "/dev/dri/card2": {("alloc", ""): 9, ("free", ""): 5, ("other", ""): 3},
}


def made(log: str) -> dict[str, dict[tuple[str, str], int]]:
    """What a workload says it did: node -> (kind, errno name) -> calls."""
    said: dict[str, dict[tuple[str, str], int]] = {}
    for each in counted(log):
        assert NODES[each.node] == each.driver
        said.setdefault(each.node, {})[each.kind, each.error] = each.calls
    return said


def test_devices_are_where_they_were_put(vm: Vm) -> None:
    """The PCI devices have the addresses that tests name; vgem is on no bus."""
    links = vm.run("cd /sys/class/drm; for c in card0 card1 card2; do readlink -f $c/device; done")

    virtio, qxl, vgem = links.output.splitlines()
    assert VIRTIO_GPU in virtio
    assert qxl.endswith(QXL)
    assert vgem.endswith("/vgem")


def test_a_job_gives_its_status_and_all_it_said(vm: Vm) -> None:
    """Standard output and error arrive as one text, with the exit status."""
    result = vm.run("echo out; echo err >&2; exit 7")

    assert (result.rc, result.output) == (7, "out\nerr\n")


def test_jobs_run_beside_each_other(vm: Vm) -> None:
    """A job that waits for another one is answered."""
    waiting = vm.start("until [ -e /tmp/flag ]; do usleep 50000; done; echo seen")
    assert vm.run("touch /tmp/flag").rc == 0

    assert waiting.wait().output == "seen\n"


def test_a_job_that_hangs_is_killed(vm: Vm) -> None:
    """Its children too, and the VM goes on."""
    with pytest.raises(JobTimeout):
        vm.run("sleep 4711 | cat", timeout_s=1)

    assert vm.run("ps | grep '[s]leep 4711'").output == ""


def test_cgroups_are_v2_only(vm: Vm) -> None:
    """As on every current distribution."""
    assert vm.run("grep cgroup /proc/mounts | cut -d' ' -f2,3").output == "/sys/fs/cgroup cgroup2\n"


def test_the_guest_reaches_the_hosts_loopback(vm: Vm) -> None:
    """A Collector on the host's 127.0.0.1 can be pushed to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello from the host\n")

        answering = threading.Thread(target=answer)
        answering.start()
        said = vm.run(f"nc {HOST} {server.getsockname()[1]} < /dev/null").output
        answering.join()

    assert said == "hello from the host\n"


@pytest.mark.parametrize("node", NODES)
def test_the_workload_makes_the_calls_that_it_is_told(vm: Vm, node: str) -> None:
    """Each kind as often as ordered; submitting to virtio_gpu fails, as nothing is behind it."""
    result = vm.run(f"workload {node} {ORDERS[node]}")

    assert made(result.output) == {node: MADE[node]}
    assert result.rc == 0


def test_threads_each_make_the_whole_order(vm: Vm) -> None:
    """Three threads make three times the calls."""
    result = vm.run("workload --threads 3 /dev/dri/card2 alloc=40 free=40 other=2")

    assert made(result.output) == {
        "/dev/dri/card2": {("alloc", ""): 120, ("free", ""): 120, ("other", ""): 6}
    }


@pytest.mark.parametrize("order", ["free=1", "wait=1", "other=0", "frees=1", "alloc=x"])
def test_an_order_that_cannot_be_carried_out_is_refused(vm: Vm, order: str) -> None:
    """Before any call is made."""
    assert vm.run(f"workload /dev/dri/card0 {order}").rc == 64


def test_pods_make_the_calls_that_they_are_told(vm: Vm) -> None:
    """One pod for each device and one for all, in both cgroup layouts, made by containerd."""
    orders = [[node, *order.split()] for node, order in ORDERS.items()]
    specs = [
        PodSpec("ml", "one", (workload(*orders[0]),)),
        PodSpec("ml", "two", (workload(*orders[1]),), layout=Layout.SLICE),
        PodSpec("edge", "three", (workload(*orders[2]), workload("/dev/dri/card2", name="side"))),
        PodSpec("edge", "all", (workload(*orders[0], *orders[2]),)),
    ]

    running = run_pods(vm, *specs, wait=False)
    ended = wait_pods(vm, *running)
    remove_pods(vm, *ended)

    assert [each.exit_code for pod in ended for each in pod.containers] == [0] * 5
    logs = [made(pod.containers[0].log) for pod in ended]
    nodes = list(NODES)
    assert logs[:3] == [{node: MADE[node]} for node in nodes]
    assert logs[3] == {node: MADE[node] for node in (nodes[0], nodes[2])}
    assert made(ended[2].containers[1].log) == {"/dev/dri/card2": {("other", ""): 1}}
    one, two = ended[0].containers[0], ended[1].containers[0]
    assert one.cgroup == f"/kubepods/besteffort/pod{specs[0].uid}/{one.id}"
    assert two.cgroup.startswith("/kubepods.slice/kubepods-besteffort.slice/")
    assert two.cgroup.endswith(f".slice/{two.id}")
    assert vm.run("ctr -n k8s.io containers list -q").output == ""


def test_the_guest_has_what_the_agent_needs(vm: Vm) -> None:
    """Locked dependencies, libbpf, BTF of kernel and modules, and the checkout's own command."""
    imports = "import grpc, yaml, google.protobuf, opentelemetry.sdk.metrics"
    exporter = "import opentelemetry.exporter.otlp.proto.grpc.metric_exporter"

    assert vm.run(f"python3 -c '{imports}; {exporter}'", 120).output == ""
    assert vm.run("python3 -c 'import ctypes; ctypes.CDLL(\"libbpf.so.1\")'").output == ""
    assert vm.run("ls /sys/kernel/btf/vmlinux /sys/kernel/btf/drm").rc == 0
    assert vm.run("xpumeter --version").rc == 0
