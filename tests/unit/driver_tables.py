# SPDX-License-Identifier: Apache-2.0
"""A driver table that is right, for tests to spoil."""

from pathlib import Path

GOOD = """\
driver: toy
type: npu
header: drm/toy_drm.h
sysfs_drivers: [toy]
calls:
  - {name: DRM_IOCTL_TOY_RUN, nr: 0x40, kind: submit}
not_observable:
  wait: it never waits
tested:
  - {where: hardware, kernel: "6.12", by: a user}
"""


def write(folder: Path, text: str, name: str = "toy.yaml") -> Path:
    """A file with this text."""
    file = folder / name
    file.write_text(text)
    return file
