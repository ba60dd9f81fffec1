# SPDX-License-Identifier: Apache-2.0
"""Driver tables: which call of a driver is of which kind, and what no call of it shows."""

from xpumeter.drivers.tables import Tables, load

__all__ = ["Tables", "load"]
