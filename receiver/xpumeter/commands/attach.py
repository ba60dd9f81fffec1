# SPDX-License-Identifier: Apache-2.0
"""`xpumeter attach` and `xpumeter detach`."""

import argparse
import sys

from xpumeter.commands.parsers import Commands, print_facts, where


def add(commands: Commands) -> None:
    """Add `attach` and `detach`."""
    commands.add("attach", _attach, "put the programs into the kernel, and exit; counting goes on")
    commands.add("detach", _detach, "take everything out of the kernel; the counts end")


def _attach(options: argparse.Namespace) -> int:
    from xpumeter import data_files
    from xpumeter.source import attach

    pins, hooks = where(options)
    done = attach.attach(data_files.find("xpumeter.bpf.o"), pins, hooks)
    if options.log_level == "debug":
        print("\n".join(done.log), file=sys.stderr)
    print_facts(
        {
            "hook": done.hook.value,
            "pins": str(pins),
            "attached": "now" if done.fresh else "before, and kept",
            "program": "this version's" if done.same_object else "another version's, kept",
            **{f"not {hook.value}": why for hook, why in done.refused},
        },
        options.output,
    )
    return 0


def _detach(options: argparse.Namespace) -> int:
    from xpumeter.source import attach

    pins, _ = where(options)
    removed = attach.detach(pins)
    print_facts({"pins": str(pins), "removed": ", ".join(removed)}, options.output)
    return 0
