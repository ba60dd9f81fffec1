# SPDX-License-Identifier: Apache-2.0
"""Devices at chosen addresses, plugged and unplugged under load: every call under the right one."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import prepare, scenario
from lab.agent import Agent
from lab.collector import Collector, Sample
from lab.job import Job
from lab.monitor import Monitor
from lab.pods import counted
from lab.scenario import Key
from lab.vm import MONITOR, Vm

pytestmark = pytest.mark.vm

ARRIVAL_S = 60
END_S = 150  # a minute of linger, then two exports
PORT, BEHIND_SWITCH = "0000:01:00.0", "0000:04:00.0"
VIRTIO, OTHER_VIRTIO, QXL = "0000:00:10.0", "0000:00:11.0", "0000:00:14.0"
DEVICES = (
    *("virtio-gpu-pci,addr=0x10", "virtio-gpu-pci,addr=0x11", "qxl,addr=0x14"),
    # Room for the memory of what is plugged in later: the kernel leaves 2 MiB.
    "pcie-root-port,id=rp1,chassis=1,addr=0x15,mem-reserve=256M,pref64-reserve=256M",
    *("pcie-root-port,id=rp2,chassis=2,addr=0x16", "x3130-upstream,id=up,bus=rp2"),
    *("xio3130-downstream,id=down,bus=up,chassis=3", "secondary-vga,bus=down"),
)


@dataclass(slots=True)
class Host:
    """A machine that counts, and what was asked of its devices so far."""

    vm: Vm
    agent: Agent
    collector: Collector
    monitor: Monitor
    made: Counter[Key]

    def start(self, service: str, *order: str) -> Job:
        """A service of the host that makes calls."""
        cgroup = f"/sys/fs/cgroup/{service}.service"
        join = f"mkdir -p {cgroup} && echo 0 > {cgroup}/cgroup.procs"
        return self.vm.start(f"{join} && exec workload {' '.join(order)}")

    def finish(self, service: str, device: str, job: Job) -> Counter[str]:
        """Add what it made to what must be counted; calls by result."""
        ended = job.wait(120)
        assert ended.rc == 0, ended.output
        results: Counter[str] = Counter()
        for one in counted(ended.output):
            key = Key("", f"/{service}.service", "", device, one.driver, one.kind, one.error)
            self.made[key] += one.calls
            results[one.error] += one.calls
        return results

    def until(
        self, arrived: Callable[[Sequence[Sample]], bool], limit_s: float = ARRIVAL_S
    ) -> Sequence[Sample]:
        """Samples once they are as expected, or as they are when the time is over."""
        end = time.monotonic() + limit_s
        while True:
            samples = self.collector.scrape()
            if arrived(samples) or time.monotonic() > end:
                return samples
            time.sleep(0.2)

    def differences(self) -> Sequence[str]:
        """Between what was made and what the Collector shows, once they agree or time is over."""
        samples = self.until(lambda now: not scenario.differences(self.made, scenario.shown(now)))
        return scenario.differences(self.made, scenario.shown(samples))

    def unplug(self, name: str) -> None:
        """Ask for the device in the port, and return when the guest has let it go."""
        self.monitor.unplug(name)
        self.vm.run(f"while [ -e /sys/bus/pci/devices/{PORT} ]; do usleep 50000; done")

    def node_of(self, address: str) -> str:
        """Wait for the primary node of a PCI device; its path."""
        nodes = f"/sys/bus/pci/devices/{address}/drm"
        found = self.vm.run(f"until ls {nodes} 2> /dev/null | grep card; do usleep 50000; done")
        return f"/dev/dri/{found.output.strip()}"


def until(agent: Agent, said: str) -> None:
    """Return when the agent has said it."""
    end = time.monotonic() + ARRIVAL_S
    while said not in agent.log:
        assert time.monotonic() < end, agent.log
        time.sleep(0.1)


@pytest.fixture(scope="module")
def host(
    made: prepare.Parts,
    app: Path,
    otelcol_program: Path,
    prometheus_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Host]:
    """An agent runs before the driver of one of the devices is loaded. The newest kernel only."""
    kernel = prepare.kernel(made, prepare.metapackages()[-1])
    work = tmp_path_factory.mktemp("hotplug") / "work"
    variables = ("lab_containerd=0",)
    with (
        Vm(made, kernel, work, app=app, devices=DEVICES, variables=variables) as vm,
        Collector(otelcol_program, prometheus_config, work) as collector,
        Monitor(work / MONITOR) as monitor,
    ):
        agent = Agent(vm, collector.otlp_endpoint)
        agent.attach()
        agent.start()
        until(agent, "event=devices count=4")
        vm.run("modprobe bochs")
        yield Host(vm, agent, collector, monitor, Counter())
        agent.stop()


def test_calls_on_each_of_five_devices_are_its_own(host: Host) -> None:
    """Four drivers, two devices of one of them, one behind a switch, one loaded after the agent."""
    nodes = {address: host.node_of(address) for address in (VIRTIO, OTHER_VIRTIO, QXL)}
    orders = {
        VIRTIO: (nodes[VIRTIO], "alloc=11", "wait=5", "free=11"),
        OTHER_VIRTIO: (nodes[OTHER_VIRTIO], "submit=7", "alloc=22", "free=21"),
        QXL: (nodes[QXL], "submit=33", "alloc=3", "free=3"),
        BEHIND_SWITCH: (host.node_of(BEHIND_SWITCH), "alloc=44", "free=44"),
        scenario.VGEM: (scenario.nodes(host.vm)[scenario.VGEM][0], "alloc=55", "free=55"),
    }
    jobs = {device: host.start("all", *order) for device, order in orders.items()}

    for device, job in jobs.items():
        host.finish("all", device, job)

    assert host.differences() == []
    assert {key.driver for key in host.made} == {"virtio_gpu", "qxl", "bochs-drm", "vgem"}
    until(host.agent, f"event=device_came device='{BEHIND_SWITCH}'")
    assert scenario.unattributed(host.collector.scrape()) == 0


def test_a_device_may_go_under_load(host: Host) -> None:
    """Calls that fail because the device is gone are its calls too; the others notice nothing."""
    host.monitor.plug("bochs-display", bus="rp1", name="first")
    node, other = host.node_of(PORT), host.node_of(VIRTIO)
    load = host.start("load", "--pause-us", "300", node, "alloc=6000", "free=6000")
    beside = host.start("load", "--pause-us", "300", other, "alloc=2000", "free=2000")
    time.sleep(2)
    host.unplug("first")

    results = host.finish("load", PORT, load)
    host.finish("load", VIRTIO, beside)

    assert results["ENODEV"] > 0
    assert results[""] > 0
    assert host.differences() == []
    until(host.agent, f"event=device_gone device='{PORT}'")


def test_what_is_plugged_again_goes_on(host: Host) -> None:
    """The same driver at the same address: one series, which never steps back."""
    # Another device of QEMU's with the same ids: the memory of the first is never given back.
    host.monitor.plug("secondary-vga", bus="rp1", name="second")

    host.finish("load", PORT, host.start("load", host.node_of(PORT), "alloc=100", "free=100"))

    assert host.differences() == []
    host.unplug("second")


def test_another_driver_at_the_address_is_another_device(host: Host) -> None:
    """Its calls are not added to those of who was there before; one hw.id, two drivers."""
    host.monitor.plug("qxl", bus="rp1", name="third")

    host.finish("load", PORT, host.start("load", host.node_of(PORT), "submit=70", "alloc=7"))

    assert host.differences() == []
    drivers = {key.driver for key in host.made if key.device == PORT}
    assert drivers == {"bochs-drm", "qxl"}


def test_a_driver_may_be_unbound_under_load_and_bound_again(host: Host) -> None:
    """virtio: the file of before is still open when the device is there anew."""
    load = host.start(
        *("load", "--pause-us", "300", host.node_of(OTHER_VIRTIO), "alloc=3000", "free=3000")
    )
    time.sleep(2)
    driver = "/sys/bus/virtio/drivers/virtio_gpu"
    named = host.vm.run(f"basename /sys/bus/pci/devices/{OTHER_VIRTIO}/virtio*").output.strip()
    host.vm.run(f"echo {named} > {driver}/unbind && echo {named} > {driver}/bind")
    anew = host.start("load", host.node_of(OTHER_VIRTIO), "alloc=9", "free=9")

    host.finish("load", OTHER_VIRTIO, anew)
    results = host.finish("load", OTHER_VIRTIO, load)

    assert results["ENODEV"] > 0
    assert host.differences() == []


def test_the_series_of_what_went_end(host: Host) -> None:
    """A minute after the last call its series are no more, and its info; its calls stay counted."""

    def of_who_left(samples: Sequence[Sample]) -> list[Sample]:
        return [
            each
            for each in samples
            if each.labels.get("hw_id") == PORT and each.labels.get("xpumeter_driver") != "qxl"
        ]

    samples = host.until(lambda now: not of_who_left(now), END_S)

    assert of_who_left(samples) == []
    kept = {
        key: calls
        for key, calls in host.made.items()
        if (key.device, key.driver) != (PORT, "bochs-drm")
    }
    assert scenario.differences(kept, scenario.shown(samples)) == []


def test_the_kernel_counted_what_was_made(host: Host) -> None:
    """Rows, totals and the callers' own counts are one number, whoever came and went."""
    (host.vm.work / "sums.py").write_text(
        "import json\n"
        "from pathlib import Path\n"
        "from xpumeter.source.pins import Pins\n"
        "pins = Pins(Path('/sys/fs/bpf/xpumeter'))\n"
        "reading = pins.read()\n"
        "print(json.dumps([sum(row.calls for row in reading.rows),\n"
        "    sum(each.returns for each in reading.totals), len(pins.devices())]))\n"
    )
    said = host.vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/sums.py')

    rows, returns, incarnations = json.loads(said.output)
    assert rows == returns == sum(host.made.values())
    assert incarnations == 9  # five, the port's three, the virtio-gpu that was bound again
    assert "event=calls_missing" not in host.agent.log
