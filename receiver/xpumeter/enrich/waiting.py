# SPDX-License-Identifier: Apache-2.0
"""Who waits for a name, and when the container runtime is to be asked for it.

The runtime is asked soon after an unknown container shows, and ever more rarely while one stays
unknown: for two lists a second at most, however many containers show, and for two a minute in the
end. Times are of one monotonic clock, in seconds, and come in as arguments.
"""

from collections.abc import Set

from xpumeter.model.owners import Identity

_PAUSE_S = 0.5
_PAUSE_LIMIT_S = 30.0
"""Pauses are for each list that was asked for: after two lists they are twice that."""

_FOREIGN_S = 60.0
"""A container outside pods that the runtime does not list by then is another engine's (Docker's,
Podman's). Sooner it may be one that CRI-O is still making, whose hooks call already."""


class Waiting:
    """Identities without a name, since when, and until when the runtime is left alone.

    Attributes:
        due_s: When it is to be asked again.
    """

    def __init__(self, now_s: float) -> None:
        self._since_s: dict[Identity, float] = {}
        self._pause_s = _PAUSE_S
        self._rested_s = now_s
        self.due_s = now_s

    @property
    def identities(self) -> Set[Identity]:
        """Who waits."""
        return self._since_s.keys()

    def longest_s(self, now_s: float) -> float | None:
        """How long the first of them has been waiting; None if nobody is."""
        return now_s - min(self._since_s.values()) if self._since_s else None

    def are(self, unnamed: Set[Identity], now_s: float) -> None:
        """These wait and no others; who is new among them waits from now on."""
        self._since_s = {each: self._since_s.get(each, now_s) for each in unnamed}

    def hasten(self) -> None:
        """Somebody new is here: ask as soon as the runtime has had its rest."""
        self._pause_s, self.due_s = _PAUSE_S, self._rested_s

    def asked(self, lists: int, now_s: float) -> None:
        """A question that took so many lists is over, whatever came of it.

        From its end on: one that takes seconds must not be asked again at once.
        """
        lists = max(1, lists)
        self._rested_s = now_s + _PAUSE_S * lists
        self.due_s = now_s + self._pause_s * lists
        self._pause_s = min(self._pause_s * 2, _PAUSE_LIMIT_S)

    def hopeless(self, gone: Set[Identity], now_s: float) -> Set[Identity]:
        """Whom the runtime will never name, now that it has answered without them.

        It will not list who was `gone` before it was asked, nor containers of others.
        """
        foreign = {
            each
            for each, since_s in self._since_s.items()
            if each.pod_uid is None and since_s <= now_s - _FOREIGN_S
        }
        return foreign | gone
