# SPDX-License-Identifier: Apache-2.0
"""Who pays for a caller's room in the kernel, and that nobody takes that of others."""

import pytest

from lab.vm import Vm
from vm.guest import guest

pytestmark = pytest.mark.vm

ROW_LIMIT, CGROUP_LIMIT, PLAIN_LIMIT = 2048, 2048, 1792  # XPUMETER_TENANT_...

UID = "0f3a5b7c_1111_2222_3333_444444444444"
PAYERS = {
    "lone": "lone",
    "system.slice/x.service": "system.slice/x.service",
    "system.slice/x.service/its/own": "system.slice/x.service",
    "user.slice/user-1000.slice/user@1000.service/app.slice": "user.slice/user-1000.slice",
    f"kubepods.slice/b.slice/kubepods-b-pod{UID}.slice/cri-1.scope": (
        f"kubepods.slice/b.slice/kubepods-b-pod{UID}.slice"
    ),
    "docker/kind/kubelet/kubepods/besteffort/podABCDEF01/1": (
        "docker/kind/kubelet/kubepods/besteffort/podABCDEF01"
    ),
    "docker/kind/kubelet/popod01234567/1": "docker/kind/kubelet/popod01234567",
    "docker/kind/kubelet/pod0123456/seven digits": "docker/kind",
    "docker/kind/kubelet/pod 01234567/1": "docker/kind",
    "kubepods/pod01234567/1/pod89abcdef/2": "kubepods/pod01234567",
    f"kubepods/burstable/{'x' * 244}pod01234567/1": f"kubepods/burstable/{'x' * 244}pod01234567",
}

WHO_PAYS = f"""
node = os.open(NODE, os.O_RDWR)
paid = {{}}
for path in {list(PAYERS)!r}:
    enter(CGROUPS / path)
    call(node)
    paid[path] = payer(CGROUPS / path)
deep = CGROUPS / "kubepods/pod01234567"
pod_id = deep.stat().st_ino
for level in range(40):
    deep /= str(level)
enter(deep)
call(node)
call(node)
leave()
calls = [row.calls for row in Pins(PINS).read().rows if row.cgroup_id == pod_id]
print(json.dumps([paid, calls, exact()]))
"""


def test_who_pays_for_a_caller(counting: Vm) -> None:
    """Its outermost pod, else what is on the second level; for one that lies too deep, that too."""
    paid, calls_of_the_deep, wrong = guest(counting, WHO_PAYS)

    assert paid == PAYERS
    assert calls_of_the_deep == [2]
    assert wrong == []


GREEDY = """
node = os.open(NODE, os.O_RDWR)
books = Books()
greedy, modest = pod(1), pod(2)
tenant = enter(greedy)
mine = {tenant}
for container in range(2100):
    mine.add(enter(greedy / f"{container:064x}"))
    call(node)
for number in range(1, 256):
    call(node, number)
enter(modest / "first")
others = {modest.joinpath("first").stat().st_ino: 3}
for _ in range(3):
    call(node)
others[enter(modest / "second")] = 40
for number in range(1, 41):
    call(node, number)
leave()
books.read()
losses = books.pins.read().losses
names = books.pins.cgroups()
of = lambda ids: {key: calls for key, calls in books.live.items() if key[0] in ids}
said = {
    "rows": len(of(mine)), "names": len(mine & names.keys()),
    "calls": sum(of(mine).values()),
    "overflow": sum(calls for key, calls in of(mine).items() if key[2] == 0x101),
    "overflow_owner": [key[0] == tenant for key in of(mine) if key[2] == 0x101],
    "tenant_rows": losses.tenant_rows, "tenant_cgroups": losses.tenant_cgroups,
    "cgroups": losses.cgroups,
    "others": [sum(of({each}).values()) == calls for each, calls in others.items()],
    "other_rows": len(of(others)),
    "balanced": books.balanced(), "wrong": exact(),
}
for container in range(1000):
    remove(greedy / f"{container:064x}")
wait_for_grace()
books.settle()
fresh = enter(greedy / "fresh")
call(node)
leave()
books.read()
said["fresh"] = [fresh in books.pins.cgroups(), [key[2] for key in of({fresh})]]
said["wrong"] += exact()
for each in (greedy, modest):
    remove(each)
wait_for_grace()
books.settle()
said["left"] = [len(of(mine | others.keys())), len(mine & books.pins.cgroups().keys())]
said["still_balanced"] = books.balanced()
said["wrong"] += exact()
print(json.dumps(said))
"""


def test_a_greedy_tenant_takes_no_more_than_its_share(counting: Vm) -> None:
    """Every call of it is counted, and those of its neighbours in rows of their own."""
    said = guest(counting, GREEDY)

    made = 2100 + 255
    assert said["rows"] <= ROW_LIMIT
    assert said["names"] == CGROUP_LIMIT
    assert said["calls"] == made
    assert said["overflow"] == made - PLAIN_LIMIT == said["tenant_rows"]
    assert said["overflow_owner"]
    assert all(said["overflow_owner"])
    assert said["tenant_cgroups"] == 2100 - (CGROUP_LIMIT - 1)
    assert said["cgroups"] == 0
    assert said["others"] == [True, True]
    assert said["other_rows"] == 1 + 40
    assert said["balanced"]
    assert said["fresh"] == [True, [0]], "what is retired is free again"
    assert said["left"] == [0, 0]
    assert said["still_balanced"]
    assert said["wrong"] == []
