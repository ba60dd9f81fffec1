# SPDX-License-Identifier: Apache-2.0
"""All checks in their order, each of which may fail without keeping the others from being made."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from xpumeter import config
from xpumeter.config import Config
from xpumeter.doctor import counting, kernel, surroundings
from xpumeter.errors import HostError, XpumeterError
from xpumeter.model.checks import Check, Status


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found, in the order of looking."""

    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """0, or that of HostError where something keeps this host from counting or exporting."""
        failed = any(check.status is Status.FAIL for check in self.checks)
        return HostError.exit_code if failed else 0

    def document(self) -> dict[str, list[dict[str, str]]]:
        """For JSON: `{"checks": [{"name", "status", "found", "hint"}]}`."""
        return {
            "checks": [
                {
                    "name": check.name,
                    "status": check.status.value,
                    "found": check.found,
                    "hint": check.hint,
                }
                for check in self.checks
            ]
        }

    def text(self) -> str:
        """For people: a line for each, a second for what is to be done, and what follows."""
        width = max(len(check.name) for check in self.checks)
        lines: list[str] = []
        for check in self.checks:
            lines.append(f"{check.status.value:<9}{check.name:<{width}}  {check.found}")
            if check.hint:
                lines.append(f"{'':<{9 + width}}  -> {check.hint}")
        failed = [check.name for check in self.checks if check.status is Status.FAIL]
        verdict = f"no, because of: {', '.join(failed)}" if failed else "yes"
        return "\n".join([*lines, f"\ncan this host count calls? {verdict}"])


def examine(config_file: Path | None, *, root: Path = Path("/")) -> Examination:
    """Look at the host whose root this is; with the defaults where the configuration is wrong.

    Works without privileges as far as that goes: what this process may not see is `unknown`.
    """
    settings, check = _configuration(config_file)
    return Examination((check, *_all(settings, root)))


def _configuration(file: Path | None) -> tuple[Config, Check]:
    shown = str(file) if file else "defaults"
    try:
        return config.load(file), Check("configuration", Status.OK, shown)
    except XpumeterError as error:
        return config.load(None, {}), Check("configuration", Status.FAIL, str(error), error.hint)


def _all(settings: Config, root: Path) -> Iterator[Check]:
    pins = settings.receiver.pins
    for look in kernel.CHECKS:
        yield _made(look.__name__, partial(look, root))
    for count in counting.CHECKS:
        yield _made(count.__name__, partial(count, root, pins))
    for around in surroundings.CHECKS:
        yield _made(around.__name__, partial(around, root, settings))


def _made(name: str, check: Callable[[], Check]) -> Check:
    """The check; or that it could not be made, which must not hide the others."""
    try:
        return check()
    except XpumeterError as error:
        return Check(name, Status.FAIL, str(error), error.hint)
    except (OSError, ValueError) as error:
        return Check(name, Status.UNKNOWN, str(error))
