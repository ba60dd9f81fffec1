# SPDX-License-Identifier: Apache-2.0
"""What cgroups leave behind when they are gone does not stay, and nothing of it is lost."""

import pytest

from lab.vm import Vm
from vm.guest import guest

pytestmark = pytest.mark.vm

NAMESAKES = """
import tempfile
node = os.open(NODE, os.O_RDWR)
callers = set()
for each in range(40):
    callers.add(enter(CGROUPS / f"namesake/{each}"))
    call(node)
leave()
v1 = Path(tempfile.mkdtemp())
assert os.system(f"mount -t cgroup -o none,name=namesake v1 {v1}") == 0
met = 0
while not met:
    (v1 / "one").mkdir()
    number = (v1 / "one").stat().st_ino
    (v1 / "one").rmdir()
    met = number if number in callers else 0
    assert number < max(callers)
os.system(f"umount {v1}")
names = Pins(PINS).cgroups()
said = [met in names, names[met].dead]
remove(CGROUPS / "namesake")
print(json.dumps([*said, Pins(PINS).cgroups()[met].dead]))
"""


def test_a_removed_cgroup_of_v1_is_none_of_ours(counting: Vm) -> None:
    """Its number may be that of a caller that lives: each hierarchy counts from 1."""
    assert guest(counting, NAMESAKES) == [True, False, True]


CHURN = """
node = os.open(NODE, os.O_RDWR)
books = Books()
enter(CGROUPS / "retire/burstable")
call(node)
leave()
books.read()
before = len(books.live), len(books.pins.cgroups())
for each in range(20):
    for container in range(100):
        enter(pod(each) / f"{container:064x}")
        call(node)
        call(node, 1)
    leave()
books.read()
during = len(books.live), len(books.pins.cgroups())
wrong = exact()
for each in range(20):
    remove(pod(each))
wait_for_grace()
books.settle()
after = len(books.live), len(books.pins.cgroups())
print(json.dumps([before, during, after, books.balanced(), books.total, wrong, exact()]))
"""


def test_two_thousand_cgroups_come_and_go(counting: Vm) -> None:
    """Rows and names are as many as before, and every call was handed over first."""
    before, during, after, balanced, total, wrong_during, wrong_after = guest(counting, CHURN)

    rows, names = before
    assert during == [rows + 2 * 2000, names + 2000 + 20]
    assert after == before
    assert (balanced, total) == (True, 1 + 2 * 2000)
    assert wrong_during == wrong_after == []


ASLEEP = """
node = os.open(NODE, os.O_RDWR)
books = Books()
home = enter(pod(1) / "home")
call(node)
sleeper = Sleeper(node)
sleeper.start()
while not (waiting := books.pins.read().open):
    time.sleep(0.05)
enter(pod(1) / "elsewhere")
remove(pod(1) / "home")
books.read()
(key,) = (key for key in books.live if key[0] == home)
at_once = list(books.kept)
wait_for_grace()
books.settle()
asleep = key in books.kept, books.live[key]
sleeper.wake()
books.read()
late = key in books.kept, books.live[key]
books.settle()
leave()
print(json.dumps({
    "open": [[each.cgroup_id == home, each.nr, each.tid, each.start_ns] for each in waiting],
    "tid": sleeper.native_id, "now_ns": time.monotonic_ns(), "result": sleeper.result,
    "at_once": at_once, "asleep": asleep, "late": late,
    "gone": key not in books.live, "named": home in books.pins.cgroups(),
    "kept": books.kept[key], "still_open": len(books.pins.read().open),
    "balanced": books.balanced(), "wrong": exact(),
}))
"""


def test_a_row_stays_while_a_call_for_it_is_asleep(counting: Vm) -> None:
    """The caller's cgroup is gone and the caller elsewhere: its late call is in its own row."""
    said = guest(counting, ASLEEP)

    ((is_home, nr, tid, start_ns),) = said["open"]
    assert (is_home, nr, tid) == (True, 0, said["tid"])
    assert 0 < start_ns < said["now_ns"]
    assert said["at_once"] == [], "nothing is offered within the grace"
    assert said["asleep"] == [False, 1]
    assert said["result"] == 0
    assert said["late"] == [True, 2], "counted, then offered"
    assert said["gone"]
    assert not said["named"]
    assert said["kept"] == 2
    assert said["still_open"] == 0
    assert said["balanced"]
    assert said["wrong"] == []


KILLED = """
import subprocess, sys
node = os.open(NODE, os.O_RDWR)
books = Books()
for container in range(1000):
    enter(pod(container // 500) / f"{container:064x}")
    call(node)
leave()
for each in range(2):
    remove(pod(each))
wait_for_grace()
offered_then_killed = "from guest_calls import *; Pins(PINS).read(); os.kill(os.getpid(), 9)"
killed = [subprocess.run([sys.executable, "-c", offered_then_killed]).returncode]
books.read()
all_there = len(books.live) == len(books.kept) == 1000
retiring_then_killed = (
    "from guest_calls import *; os.read(os.open(PINS / 'retire_rows', os.O_RDONLY), 4096); "
    "os.kill(os.getpid(), 9)"
)
killed.append(subprocess.run([sys.executable, "-c", retiring_then_killed]).returncode)
books.read()
half = len(books.live)
balanced = books.balanced()
books.settle()
print(json.dumps([killed, all_there, half, balanced, len(books.live), books.balanced(), exact()]))
"""


def test_a_reader_may_be_killed_at_any_time(counting: Vm) -> None:
    """After the offer nothing is gone; while retiring, only what had been offered."""
    killed, all_there, half, balanced_then, left, balanced, wrong = guest(counting, KILLED)

    assert killed == [-9, -9]
    assert all_there
    assert 0 < half < 1000
    assert balanced_then
    assert (left, balanced, wrong) == (0, True, [])


PRIVATE = """
from xpumeter.source import privileges
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
privileges.drop_all()
pins = Pins(PINS)
rows = pins.read().rows
print(json.dumps([[row.calls for row in rows], pins.retire()]))
"""


def test_only_the_agent_s_user_can_retire(counting: Vm) -> None:
    """Another one reads the rows, is offered none of them and deletes none."""
    counting.run(
        "mkdir -p /sys/fs/cgroup/gone; sh -c 'echo $$ > /sys/fs/cgroup/gone/cgroup.procs; "
        "exec workload --speed 7 /dev/dri/card2'; rmdir /sys/fs/cgroup/gone; sleep 6"
    )

    assert guest(counting, PRIVATE) == [[7], None]
    modes = counting.run("stat -c '%a %u %n' /sys/fs/bpf/xpumeter/*r*_*s | grep -v map_")
    assert [line.rsplit("/", 1) for line in modes.output.splitlines()] == [
        ["400 0 /sys/fs/bpf/xpumeter", name]
        for name in ("offer_rows", "retire_cgroups", "retire_rows")
    ]
