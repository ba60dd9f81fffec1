# SPDX-License-Identifier: Apache-2.0
"""Layers of tests that this machine may not be able to run."""

import os
from typing import NoReturn

import pytest


def required(layer: str) -> bool:
    """Whether XPUMETER_REQUIRE, a list with commas, names the layer."""
    return layer in os.environ.get("XPUMETER_REQUIRE", "").split(",")


def cannot_run(layer: str, reason: object) -> NoReturn:
    """Skip the test with this reason, or fail it where the layer is required."""
    if required(layer):
        pytest.fail(f"{layer} is required here, but: {reason}")
    pytest.skip(f"{reason}; XPUMETER_REQUIRE={layer} makes this a failure")


def require(layer: str, condition: object, reason: str) -> None:
    """Let the test go on if `condition` holds, else `cannot_run`."""
    if not condition:
        cannot_run(layer, reason)
