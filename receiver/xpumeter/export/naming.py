# SPDX-License-Identifier: Apache-2.0
"""What owners, devices and results are called in OTLP: the attributes of Resources and points."""

import errno
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from xpumeter.export import catalog
from xpumeter.model.calls import ERROR_UNSEEN, Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice, address_of
from xpumeter.model.owners import Owner
from xpumeter.model.series import Point, Series, Snapshot

Attributes = tuple[tuple[str, str | int], ...]
"""Names and values, none empty: the identity of a Resource or of a point in its metric."""

PointKey = tuple[catalog.Metric, Attributes]
"""One point of a Resource."""

# Where Python's errno has another name for a number, or none (include/linux/errno.h).
_ERRORS = {35: "EDEADLK", 95: "EOPNOTSUPP", 524: "ENOTSUPP", ERROR_UNSEEN: catalog.OTHER_ERROR}


def error_type(error: int) -> str:
    """Name of an errno; its number where it has none; `_OTHER` for a return that nobody saw."""
    return _ERRORS.get(error) or errno.errorcode.get(error) or str(error)


def key_values(attributes: Attributes) -> Iterable[KeyValue]:
    """Attributes as OTLP has them."""
    for name, value in attributes:
        if isinstance(value, int):
            yield KeyValue(key=name, value=AnyValue(int_value=value))
        else:
            yield KeyValue(key=name, value=AnyValue(string_value=value))


def _known(attributes: Mapping[str, str | int | None]) -> Attributes:
    return tuple(item for item in attributes.items() if item[1] not in {None, ""})  # type: ignore[misc]


@cache
def _call(kind: Kind, error: int = 0) -> Attributes:
    return _known(
        {
            catalog.KIND.name: kind.value,
            catalog.ERROR_TYPE.name: error_type(error) if error else None,
        }
    )


@cache
def _reason(reason: Reason) -> Attributes:
    return ((catalog.REASON.name, reason.value),)


def _owner(owner: Owner) -> dict[str, str | None]:
    return {
        "k8s.namespace.name": owner.namespace,
        "k8s.pod.name": owner.pod,
        "k8s.pod.uid": owner.pod_uid,
        "k8s.container.name": owner.container,
        "container.id": owner.container_id,
        "process.linux.cgroup": owner.cgroup,
    }


def _device(device: KnownDevice) -> dict[str, str | None]:
    return {
        "hw.id": address_of(device.device_id),
        "hw.type": device.hw_type and device.hw_type.value,
        "hw.vendor": device.vendor,
        "hw.model": device.model,
        "xpumeter.driver": device.driver,
    }


def _device_info(device: KnownDevice) -> Attributes:
    """On the point and not on the Resource: a node's name may change, a device's identity not."""
    names = [name.rpartition("/")[2] for name in device.node_names]
    return _known(
        {
            catalog.PCI_ID.name: device.pci_id,
            catalog.NUMA_NODE.name: device.numa_node,
            catalog.PART_OF.name: device.part_of,
            catalog.SWITCH.name: device.switch,
            **{
                attribute.name: next((name for name in names if name.startswith(prefix)), None)
                for prefix, attribute in catalog.NODE_NAMES.items()
            },
        }
    )


def _series_points(series: Series, since_unix_ns: int) -> Iterator[tuple[PointKey, Point]]:
    for (kind, error), point in series.calls.items():
        yield (catalog.CALLS, _call(kind, error)), point
    for kind, point in series.time_ns.items():
        yield (catalog.CALL_TIME, _call(kind)), point
    for kind, point in series.interrupted.items():
        yield (catalog.CALL_INTERRUPTED, _call(kind)), point
    # Every return has its time, so these are all the kinds that were called.
    for kind in dict.fromkeys([*series.time_ns, *series.in_flight]):
        calls = series.in_flight.get(kind)
        point = Point(calls.calls if calls else 0, since_unix_ns)
        yield (catalog.CALL_ACTIVE, _call(kind)), point
    for kind, calls in series.in_flight.items():
        # A gauge has no start.
        yield (catalog.CALL_OLDEST, _call(kind)), Point(calls.oldest_ns, 0)


_Named = dict[tuple[Owner, DeviceId], tuple[KnownDevice, Attributes]]


class Naming:
    """Spreads a snapshot over Resources; `host` are the attributes that all of them have."""

    def __init__(self, host: Mapping[str, str]) -> None:
        self._host = dict(host)
        self._started: dict[DeviceId, int] = {}
        self._before: _Named = {}

    def points(self, snapshot: Snapshot) -> Iterator[tuple[Attributes, PointKey, Point, bool]]:
        """Each point: Resource, name and attributes, value, whether its owner or device is gone."""
        named: _Named = {}
        for series in snapshot.series:
            resource = self.resource_of(series)
            named[series.owner, series.device.device_id] = series.device, resource
            for key, point in _series_points(series, snapshot.since_unix_ns):
                yield resource, key, point, series.ended

        self._before = named

        by_id = {device.device_id: device for device in snapshot.devices}
        for device in by_id.values():
            start_unix_ns = self._started.setdefault(device.device_id, snapshot.unix_ns)
            yield (
                self._of_device(device),
                (catalog.DEVICE_INFO, _device_info(device)),
                Point(1, start_unix_ns),
                device.gone,
            )
        for (device_id, reason), point in snapshot.unattributed.items():
            known = by_id.get(device_id) if device_id is not None else None
            resource = (
                self._of_device(known)
                if known is not None
                else _known({**self._host, "hw.id": device_id})
            )
            gone = known is not None and known.gone
            yield resource, (catalog.CALL_UNATTRIBUTED, _reason(reason)), point, gone

    def resource_of(self, series: Series) -> Attributes:
        """Attributes of its Resource, made once for as long as it is shown: they do not change."""
        before = self._before.get((series.owner, series.device.device_id))
        if before is not None and before[0] is series.device:
            return before[1]
        return _known({**self._host, **_owner(series.owner), **_device(series.device)})

    def _of_device(self, device: KnownDevice) -> Attributes:
        return _known({**self._host, **_device(device)})
