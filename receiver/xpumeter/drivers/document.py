# SPDX-License-Identifier: Apache-2.0
"""What a driver table says, for programs to read."""

from typing import Any

from xpumeter.model.calls import DriverTable


def summary(table: DriverTable) -> dict[str, Any]:
    """One driver, in one line: JSON's own types, null for what the table does not say."""
    return {
        "driver": table.driver,
        "type": table.hw_type and table.hw_type.value,
        "vendor": table.vendor,
        "since": table.since,
        "observable": [kind.value for kind in table.observable],
        "file": table.source,
    }


def document(table: DriverTable) -> dict[str, Any]:
    """All of it: the summary, each call with name, nr and kind, core calls included."""
    return {
        **summary(table),
        "header": table.header,
        "header_unchecked": table.header_unchecked,
        "sysfs_drivers": list(table.sysfs_drivers),
        "calls": [
            {"name": call.name, "nr": call.nr, "kind": call.kind.value} for call in table.calls
        ],
        "not_observable": {kind.value: why for kind, why in table.not_observable.items()},
        "tested": [dict(report) for report in table.tested],
    }
