# SPDX-License-Identifier: Apache-2.0
"""A wait that signals interrupt returns more often than it is called: the kernel restarts it."""

import json

import pytest

from lab.vm import Vm

pytestmark = pytest.mark.vm

ALARMS = 5
ERESTARTSYS, ETIME, EOPNOTSUPP = 512, 62, 95
SYNCOBJ_CREATE, SYNCOBJ_WAIT = 0xBF, 0xC3

# uapi/drm/drm.h: drm_syncobj_create {handle, flags}, and of drm_syncobj_wait the first 32 bytes
# {handles, timeout_nsec, count_handles, flags, first_signaled, pad}; flag 2 is WAIT_FOR_SUBMIT.
WAIT = """
import ctypes, fcntl, json, os, signal, struct, time
from pathlib import Path
from xpumeter.source.pins import Pins

alarms = 0
def count(*_):
    global alarms
    alarms += 1

device = os.open("/dev/dri/card0", os.O_RDWR)
created = bytearray(8)
try:
    fcntl.ioctl(device, 0xC00864BF, created)
except OSError as error:
    print(json.dumps({"created": error.errno}))
else:
    handle = ctypes.create_string_buffer(bytes(created[:4]), 4)
    until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 3_000_000_000
    request = bytearray(
        struct.pack("=QqIIII", ctypes.addressof(handle), until, 1, 2, 0, 0)
    )
    signal.signal(signal.SIGALRM, count)
    signal.siginterrupt(signal.SIGALRM, False)  # SA_RESTART
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * len(request)).from_buffer(request)
    result = libc.ioctl(device, ctypes.c_ulong(0xC02064C3), buffer)
    error = ctypes.get_errno() if result else 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps({"created": 0, "wait": error}))
rows = Pins(Path("/sys/fs/bpf/xpumeter")).read().rows
print(json.dumps([[row.nr, row.error, row.calls, row.time_ns] for row in rows]))
"""


def test_restarts_are_no_calls_but_their_time_counts(vm: Vm) -> None:
    """One wait of three seconds that an alarm interrupts each 0.3 s: one ETIME, the rest restarts.

    On Linux 6.1 virtio_gpu has no sync objects: there the refusal is what must be counted.
    """
    (vm.work / "wait.py").write_text(WAIT)
    assert vm.run("xpumeter attach").rc == 0
    try:
        done = vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/wait.py')
    finally:
        vm.run("xpumeter detach")

    said, rows = (json.loads(line) for line in done.output.splitlines())
    found = {(nr, error): (calls, time_ns) for nr, error, calls, time_ns in rows}
    if vm.kernel.short == "6.1":
        assert said == {"created": EOPNOTSUPP}
        assert found[SYNCOBJ_CREATE, EOPNOTSUPP][0] == 1
        return
    assert said == {"created": 0, "wait": ETIME}
    assert found[SYNCOBJ_WAIT, ETIME][0] == 1
    restarts, restarted_ns = found[SYNCOBJ_WAIT, ERESTARTSYS]
    assert restarts >= ALARMS
    waited_ns = restarted_ns + found[SYNCOBJ_WAIT, ETIME][1]
    assert 2_500_000_000 < waited_ns < 4_500_000_000
