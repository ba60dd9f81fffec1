# SPDX-License-Identifier: Apache-2.0
"""What the commands share: how one is added, and the arguments that several have."""

import argparse
from collections.abc import Callable
from pathlib import Path

from xpumeter.hook import PINS, Hook

Command = Callable[[argparse.Namespace], int]


class Commands:
    """The commands of one parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._added = parser.add_subparsers(metavar="COMMAND", required=True)
        self._every = argparse.ArgumentParser(add_help=False)
        self._every.add_argument(
            "--config", type=Path, metavar="FILE", help="configuration; without it, the defaults"
        )
        self._every.add_argument(
            "--log-level",
            choices=("debug", "info", "warn", "error"),
            help="debug prints the verifier's whole log too (default: the configuration's, info)",
        )
        self._prints = argparse.ArgumentParser(add_help=False)
        self._prints.add_argument(
            "-o", "--output", choices=("table", "json"), default="table", help="default: table"
        )

    def group(self, name: str, summary: str) -> "Commands":
        """Commands of their own below `name`: `xpumeter NAME COMMAND`."""
        return Commands(self._added.add_parser(name, help=summary, description=summary))

    def add(
        self, name: str, command: Command, summary: str, *, prints: bool = True
    ) -> argparse.ArgumentParser:
        """A parser for `command`, which gives the exit code; with -o where it `prints`."""
        parents = [self._every, self._prints] if prints else [self._every]
        added = self._added.add_parser(name, parents=parents, help=summary, description=summary)
        added.set_defaults(command=command)
        return added


def where(options: argparse.Namespace) -> tuple[Path, tuple[Hook, ...]]:
    """Folder of the pins, and the hooks allowed. Without a file no configuration is imported."""
    if options.config is None:
        return PINS, tuple(Hook)
    from xpumeter import config

    receiver = config.load(options.config).receiver
    return receiver.pins, receiver.hooks


def print_json(value: object) -> None:
    """One document on stdout."""
    import json

    print(json.dumps(value, indent=2))


def print_facts(facts: dict[str, str], output: str) -> None:
    """Name and value, one pair a line; with `output` json one object."""
    if output == "json":
        print_json(facts)
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        print(f"{name:<{width}}{value}")
