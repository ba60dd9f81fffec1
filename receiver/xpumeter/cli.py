# SPDX-License-Identifier: Apache-2.0
"""The command line. Reads arguments, prints, and says by exit code how it went; decides nothing.

What a command does not need is not imported: `attach` counts before gRPC or YAML would be loaded.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from xpumeter.errors import XpumeterError
from xpumeter.hook import PINS, Hook

_DESCRIPTION = """\
Counts every call that each container makes into the kernel's GPU and NPU drivers, in the kernel,
and pushes the counts over OTLP.

  on one host         sudo xpumeter run --config xpumeter.yaml
  in two steps        sudo xpumeter attach     counting goes on when it has exited
                      xpumeter run             needs no capability
  without privileges  xpumeter devices         what is here, and what of it can be seen
                      xpumeter identify PATH   whose cgroup that is, for reports of wrong names
"""

_EXIT_CODES = """\
exit codes (sysexits.h):
  0   done
  2   the command line is wrong
  69  this machine cannot do it
  70  a fault of xpumeter: please report it
  75  nothing is attached here, or pins of another version
  77  a capability is missing: the message names it
  78  a configuration or a driver table is wrong: the message names file and line
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except XpumeterError as error:
        print(f"xpumeter: {error}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        if options.log_level == "debug":
            print("\n".join(getattr(error, "log", ())), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nobody is left to tell
        return 0
    except Exception as fault:
        if options.log_level == "debug":
            raise
        print(f"xpumeter: {type(fault).__name__}: {fault}", file=sys.stderr)
        print("  a fault of xpumeter: please report it with --log-level debug", file=sys.stderr)
        return XpumeterError.exit_code


class _Version(argparse.Action):
    """Looked up only when asked: importlib.metadata costs more than all of argparse."""

    def __call__(self, *_: object) -> None:
        from importlib.metadata import version

        print(f"xpumeter {version('xpumeter')}")
        sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xpumeter",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    every = argparse.ArgumentParser(add_help=False)
    every.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration; without it, the defaults"
    )
    every.add_argument(
        "--log-level",
        choices=("debug", "info", "warn", "error"),
        help="debug prints the verifier's whole log too (default: the configuration's, info)",
    )
    prints = argparse.ArgumentParser(add_help=False)
    prints.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="default: table"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str,
        command: Callable[[argparse.Namespace], int],
        summary: str,
        *more: argparse.ArgumentParser,
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[every, *more], help=summary, description=summary)
        added.set_defaults(command=command)
        return added

    add(
        "run",
        _run,
        "attach if that was not done, then name the counts and push them over OTLP, until SIGTERM; "
        "without --config to OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4317",
    )
    add("attach", _attach, "put the programs into the kernel, and exit; counting goes on", prints)
    add("detach", _detach, "take everything out of the kernel; the counts end", prints)
    devices = add(
        "devices", _devices, "list the accelerators of this host; opens no device", prints
    )
    devices.add_argument(
        "--sysfs", type=Path, default=Path("/sys"), metavar="DIR", help="another host's /sys"
    )
    identify = add("identify", _identify, "say whose cgroup a path is, by its names alone", prints)
    identify.add_argument(
        "path",
        nargs="*",
        default=["-"],
        metavar="PATH",
        help="as the kernel names it, or a line of /proc/PID/cgroup; - (the default) reads lines",
    )
    validate = add(
        "validate", _validate, "check a configuration and driver tables, and print both", prints
    )
    validate.add_argument(
        "--drivers",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder or file of driver tables to check too; may be repeated",
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    from xpumeter import agent

    return agent.main(options.config, log_level=options.log_level)


def _attach(options: argparse.Namespace) -> int:
    from xpumeter import data_files
    from xpumeter.source import attach

    pins, hooks = _where(options)
    done = attach.attach(data_files.find("xpumeter.bpf.o"), pins, hooks)
    if options.log_level == "debug":
        print("\n".join(done.log), file=sys.stderr)
    _print_facts(
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

    pins, _ = _where(options)
    removed = attach.detach(pins)
    _print_facts({"pins": str(pins), "removed": ", ".join(removed)}, options.output)
    return 0


def _devices(options: argparse.Namespace) -> int:
    from xpumeter import config, drivers, inventory
    from xpumeter.export import table

    tables = drivers.load(config.load(options.config).receiver.driver_tables)
    entries = inventory.entries(options.sysfs, tables)
    if not entries:
        print(f"xpumeter: no device in {options.sysfs}/class/drm or accel", file=sys.stderr)
    if options.output == "json":
        _print_json(entries)
    else:
        print(table.render(inventory.HEADER, map(inventory.row, entries)))
    return 0


def _identify(options: argparse.Namespace) -> int:
    from xpumeter.enrich.identity import identify, identify_process

    lines = [
        line.rstrip("\n")
        for path in options.path
        for line in (sys.stdin if path == "-" else [path])
        if line.strip()
    ]
    # A path begins at the root; a line of /proc/PID/cgroup with the number of a hierarchy.
    found = [
        identify(line) if line.startswith(("/", "..")) else identify_process(line) for line in lines
    ]
    if options.output == "json":
        import json

        for one in found:
            print(json.dumps({name: getattr(one, name) for name in _IDENTITY}))
        return 0
    from xpumeter.export import table

    rows = ([getattr(one, name) or "" for name in _IDENTITY] for one in found)
    print(table.render([name.upper().replace("_", " ") for name in _IDENTITY], rows))
    return 0


_IDENTITY = ("pod_uid", "container_id", "unit", "path")


def _validate(options: argparse.Namespace) -> int:
    from xpumeter import validate

    checked = validate.check(options.config, options.drivers)
    if options.output == "json":
        _print_json(checked.document())
    else:
        print(checked.text())
    return 0


def _where(options: argparse.Namespace) -> tuple[Path, tuple[Hook, ...]]:
    """Folder of the pins, and the hooks allowed. Without a file no configuration is imported."""
    if options.config is None:
        return PINS, tuple(Hook)
    from xpumeter import config

    receiver = config.load(options.config).receiver
    return receiver.pins, receiver.hooks


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2))


def _print_facts(facts: dict[str, str], output: str) -> None:
    if output == "json":
        _print_json(facts)
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        print(f"{name:<{width}}{value}")


if __name__ == "__main__":
    sys.exit(main())
