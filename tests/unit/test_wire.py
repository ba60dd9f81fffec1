# SPDX-License-Identifier: Apache-2.0
"""The kernel's bytes become nouns; bytes that make no sense are passed over."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from unit.pinned import pack_cgroups, pack_devices, pack_open_calls, pack_rows, pack_totals
from xpumeter.model.kernel import (
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    KernelDevice,
    OpenCall,
    Row,
)
from xpumeter.source import layout, wire

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
ROWS = st.builds(
    Row,
    cgroup_id=U64.map(CgroupId),
    device=U32.map(Incarnation),
    nr=U16,
    error=U16,
    calls=U64,
    time_ns=U64,
    first_boot_ns=U64,
    offered=st.just(False),
)


@given(st.lists(ROWS, unique_by=lambda row: (row.cgroup_id, row.device, row.nr, row.error)))
def test_rows_come_back_as_they_were_packed(rows: list[Row]) -> None:
    """Every member keeps its value, whatever it is."""
    assert wire.Rows().decode(pack_rows(rows)) == tuple(rows)


def test_a_row_that_an_iterator_shows_twice_is_one_row() -> None:
    """A map that grows while it is read may show an element twice: the later reading counts."""
    early = Row(CgroupId(1), Incarnation(1), 2, 0, calls=5, time_ns=9, first_boot_ns=3)
    late = Row(CgroupId(1), Incarnation(1), 2, 0, calls=7, time_ns=9, first_boot_ns=3)

    assert wire.Rows().decode(pack_rows([early, late])) == (late,)


def test_a_row_that_did_not_change_is_the_same_object() -> None:
    """So whoever adds rows up needs not look at it again; the others are decoded anew."""
    still = Row(CgroupId(7), Incarnation(1), 0x49, 0, 1, 1, 1)
    early = Row(CgroupId(8), Incarnation(1), 0x49, 0, 1, 1, 1)
    late = early._replace(calls=2)
    rows = wire.Rows()
    before = rows.decode(pack_rows([still, early]))

    after = rows.decode(pack_rows([late, still]))

    assert after == (late, still)
    assert after[1] is before[0]
    # Shown as it was and, when the kernel walked on, as it had become.
    assert rows.decode(pack_rows([still, late, late._replace(calls=3)])) == (
        still,
        late._replace(calls=3),
    )


def test_only_the_reader_that_offers_rows_offers_them() -> None:
    """Anyone may read the other; what it shows as offered another did."""
    offered = Row(CgroupId(7), Incarnation(1), 0x49, 0, 1, 1, 1, offered=True)
    data = pack_rows([offered])
    rows = wire.Rows()

    for offering in (False, True, False):
        assert rows.decode(data, offering=offering) == (offered._replace(offered=offering),)


def test_a_name_that_is_no_text_is_spelled() -> None:
    """A cgroup may be called anything but a slash; what leaves the host must be UTF-8."""
    name = CgroupName(
        CgroupId(9), CgroupId(1), b"\xff\xfe-pod".decode(errors="surrogateescape"), True
    )

    (read,) = wire.decode_cgroups(pack_cgroups([name])).values()

    assert read.name == r"\xff\xfe-pod"
    assert read.name.encode()


def test_a_node_number_is_the_kernel_s_own() -> None:
    """12 bits of major, 20 of minor: not the split that stat(2) shows."""
    device = KernelDevice(Incarnation(3), 226, 129, "virtio_gpu", "0000:00:10.0")

    assert wire.decode_devices(pack_devices([device])) == (device,)


def test_devices_that_were_never_called_have_no_total() -> None:
    """The array has a slot for each device there can be; empty ones say nothing."""
    called = DeviceTotal(Incarnation(2), 10, 1, 0)
    idle = DeviceTotal(Incarnation(3), 0, 0, 0)

    assert wire.decode_totals(pack_totals([called, idle])) == (called,)


def test_only_a_thread_in_a_call_has_one_open() -> None:
    """A thread keeps its place from call to call; between two it is in none."""
    call = OpenCall(CgroupId(9), Incarnation(3), 0x48, start_ns=5, tid=4711)
    data = pack_open_calls([call])
    returned = data[:-2] + b"\0\0"

    assert wire.decode_open_calls(data + returned) == (call,)


@given(st.binary(max_size=700))
def test_no_bytes_are_an_error(data: bytes) -> None:
    """Half a record at the end is left out; a ring record of another length is none."""
    wire.Rows().decode(data, offering=True)
    wire.decode_open_calls(data)
    wire.decode_cgroups(data)
    wire.decode_devices(data)
    wire.decode_totals(data)
    wire.decode_losses(data)
    layout.decode_meta(data)
    event_bytes = struct.calcsize("=" + layout.CALL_EVENT.codes)
    assert (wire.decode_event(data) is None) == (len(data) != event_bytes)
