# SPDX-License-Identifier: Apache-2.0
"""The command line: reads arguments, runs a command, and says by exit code how it went."""

import argparse
import sys
from collections.abc import Sequence

from xpumeter.commands import attach, devices, doctor, drivers, identify, run, validate
from xpumeter.commands.parsers import Command, Commands
from xpumeter.errors import XpumeterError

_DESCRIPTION = """\
Counts every call that each container makes into the kernel's GPU and NPU drivers, in the kernel,
and pushes the counts over OTLP.

  on one host         sudo xpumeter run --config xpumeter.yaml
  in two steps        sudo xpumeter attach     counting goes on when it has exited
                      xpumeter run             needs no capability
  if it does not go   xpumeter doctor          what is missing, and what to do
  without privileges  xpumeter devices         what is here, and what of it can be seen
                      xpumeter drivers list    what is known of drivers, and how to add one
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
    command: Command = options.command
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
    commands = Commands(parser)
    for module in (run, attach, doctor, devices, drivers, identify, validate):
        module.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
