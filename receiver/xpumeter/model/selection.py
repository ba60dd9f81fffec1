# SPDX-License-Identifier: Apache-2.0
"""What is shown and what is left out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names that match a pattern of `include` and none of `exclude`.

    In a pattern `*` is any text, `?` any character, `[ab]` one of these.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which series there are; by default all.

    Attributes:
        namespaces, pods: Names, of pods and what is in them.
        devices: Ids of devices, or DRM names of their drivers.
        kinds: Kinds of calls.
        host: Paths of cgroups outside pods, or ids of plain containers.
        host_on: Whether what runs outside pods is shown at all.
    """

    namespaces: Patterns = Patterns()
    pods: Patterns = Patterns()
    devices: Patterns = Patterns()
    kinds: Patterns = Patterns()
    host: Patterns = Patterns()
    host_on: bool = True

    @property
    def by_name(self) -> bool:
        """Whether it takes the names of a pod to tell."""
        return self.namespaces != Patterns() or self.pods != Patterns()
