# SPDX-License-Identifier: Apache-2.0
"""A running guest: a stock kernel, DRM devices, containerd, and jobs given from outside."""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.errors import VmGone
from lab.job import POLL_S, Job, Result, start_job
from lab.kernel import Kernel
from lab.prepare import Parts
from lab.progress import say

VIRTIO_GPU, QXL = "0000:00:10.0", "0000:00:14.0"
DEVICES = ("virtio-gpu-pci,addr=0x10", "qxl,addr=0x14")
"""QEMU devices of a VM unless it asks for others; the guest adds vgem, which is on no bus."""

HOST = "10.0.2.2"
"""The host's loopback, as the guest reaches it."""

MONITOR = "monitor"
"""Socket in the work folder, for lab.monitor."""

MEMORY = "2G"
BOOT_LIMIT_S = 120  # quiet: 10 s; shared with everything else that a test machine does
BROKEN = ("Kernel panic", "Oops:", "soft lockup")

MACHINE = "-M q35,usb=off,sata=off,smbus=off -accel tcg,thread=multi,tb-size=512 -cpu Nehalem"
NO_EXTRAS = "-nodefaults -no-user-config -display none -vga none -no-reboot"
KERNEL_LINE = (
    "console=ttyS0 quiet panic=-1 softlockup_panic=1 watchdog_thresh=8 audit=0 tsc=reliable "
    "no_timer_check mitigations=off apparmor=0 selinux=0 cryptomgr.notests=1 nokaslr "
    "8250.nr_uarts=1"
)


class Vm:
    """Boots in the `with` statement, is gone after it.

    Args:
        made: The parts, from `prepare.parts()`.
        kernel: The kernel and its initramfs, from `prepare.kernel()`.
        work: Folder of this VM: `console.log`, `containerd.log`, jobs.  Emptied at the start.
        app: xpumeter's tree for the jobs; without it `xpumeter` is not there.
        devices: QEMU devices.
        variables: `lab_drm=0` boots without DRM drivers, `lab_containerd=0` without containerd.
    """

    def __init__(
        self,
        made: Parts,
        kernel: tuple[Kernel, Path],
        work: Path,
        *,
        app: Path | None = None,
        devices: Sequence[str] = DEVICES,
        variables: Sequence[str] = (),
    ) -> None:
        self.kernel, self._initrd = kernel
        self.work = work
        self.app = app
        self._made = made
        self._devices = devices
        self._variables = variables
        self._qemu: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.boot()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def boot(self) -> None:
        """Return when containerd is ready; a guest that does not come up gets a second try.

        Raises:
            VmGone: it did not come up twice; the hint is the end of its console.
        """
        try:
            self._boot()
        except VmGone as error:
            say(f"  {error}; once more")
            self._boot()

    @property
    def alive(self) -> bool:
        """Whether QEMU runs."""
        return self._qemu is not None and self._qemu.poll() is None

    @property
    def console(self) -> str:
        """What the kernel said."""
        file = self.work / "console.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self, command: str) -> Job:
        """Start a shell command in the guest."""
        variables = {"XPUMETER_APP": f"/cache/{self.app.name}"} if self.app else {}
        return start_job(self.work, command, lambda: self.alive, **variables)

    def run(self, command: str, timeout_s: float = 60) -> Result:
        """Run a shell command in the guest and wait; JobTimeout or VmGone as `Job.wait` says."""
        return self.start(command).wait(timeout_s)

    def wait(self) -> None:
        """Return when the guest has ended."""
        if self._qemu is not None:
            self._qemu.wait()

    def stop(self) -> None:
        """End the guest at once; nothing in it is worth saving."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()

    def _boot(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "jobs").mkdir(parents=True)
        for direction in ("in", "out"):
            os.mkfifo(self.work / f"port.{direction}")
        with (self.work / "qemu.log").open("wb") as log:
            # A session of its own: Ctrl-C is ours to handle.  Killed with us, if we are killed.
            self._qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._made.tools.environment(),
                start_new_session=True,
            )
        end = time.monotonic() + BOOT_LIMIT_S
        try:
            while not (self.work / "ready").exists():
                self._check(end)
                time.sleep(POLL_S)
        except BaseException:
            self.stop()
            raise

    def _check(self, end: float) -> None:
        said = self.console
        if broken := [word for word in BROKEN if word in said]:
            raise VmGone(f"the VM broke ({broken[0]})", hint=said[-2000:])
        if not self.alive:
            said += (self.work / "qemu.log").read_text(errors="replace")
            raise VmGone("the VM ended while it booted", hint=said[-2000:])
        if time.monotonic() > end:
            raise VmGone(f"the VM was not ready after {BOOT_LIMIT_S} s", hint=said[-2000:])

    def _command(self) -> list[str]:
        made = self._made
        trees = {
            "lab_root": made.root,
            "lab_site": made.site,
            "lab_guest": made.guest,
            "lab_kernel": self.kernel.folder,
        }
        variables = [f"{name}={path.name}" for name, path in trees.items()]
        return [
            *made.tools.qemu(),
            *MACHINE.split(),
            *NO_EXTRAS.split(),
            *("-smp", str(made.tools.cpus), "-m", MEMORY),
            *("-kernel", str(self.kernel.vmlinux), "-initrd", str(self._initrd)),
            *("-append", " ".join([KERNEL_LINE, *variables, *self._variables])),
            *("-serial", f"file:{self.work / 'console.log'}"),
            *("-qmp", f"unix:{self.work / MONITOR},server=on,wait=off"),
            *_share("cache", made.cache.root, "readonly=on"),
            *_share("work", self.work),
            *(
                "-device",
                "virtio-serial-pci",
                "-chardev",
                f"pipe,id=port,path={self.work / 'port'}",
            ),
            *("-device", "virtserialport,chardev=port"),
            *("-netdev", "user,id=net,ipv6=off", "-device", "virtio-net-pci,netdev=net,romfile="),
            *(word for device in self._devices for word in ("-device", device)),
        ]


def _share(tag: str, path: Path, *options: str) -> list[str]:
    backend = [f"local,id={tag},path={path},security_model=none,multidevs=remap", *options]
    return ["-fsdev", ",".join(backend), "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
