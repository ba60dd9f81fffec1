# SPDX-License-Identifier: Apache-2.0
"""Where the files are that are not Python: the BPF object and the driver tables."""

import os
from collections.abc import Mapping
from pathlib import Path

from xpumeter.errors import HostError

_IN_CHECKOUT = {"xpumeter.bpf.o": "bpf/build/xpumeter.bpf.o", "drivers": "config/drivers"}
"""An editable install does not have them beside the code."""


def find(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Path of a file (`xpumeter.bpf.o`) or folder (`drivers`) that comes with the package.

    The folder that XPUMETER_DATA names comes first, then the installed wheel, then the checkout.
    HostError if none of them has it.
    """
    package = Path(__file__).parent
    places = [package / "data" / name, package.parents[1] / _IN_CHECKOUT[name]]
    if folder := environ.get("XPUMETER_DATA"):
        places.insert(0, Path(folder) / name)
    for place in places:
        if place.exists():
            return place
    raise HostError(
        f"{name} is not in {', '.join(str(place.parent) for place in places)}",
        hint="build it with `make -C bpf`, or let XPUMETER_DATA name the folder that has it"
        if name == "xpumeter.bpf.o"
        else "install xpumeter again, or let XPUMETER_DATA name the folder that has it",
    )
