# SPDX-License-Identifier: Apache-2.0
"""`xpumeter run`."""

import argparse

from xpumeter.commands.parsers import Commands


def add(commands: Commands) -> None:
    """Add `run`."""
    commands.add(
        "run",
        _run,
        "attach if that was not done, then name the counts and push them over OTLP, until SIGTERM; "
        "without --config to OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4317",
        prints=False,
    )


def _run(options: argparse.Namespace) -> int:
    from xpumeter import agent

    return agent.main(options.config, log_level=options.log_level)
