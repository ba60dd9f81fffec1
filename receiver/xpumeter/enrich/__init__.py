# SPDX-License-Identifier: Apache-2.0
"""Whose calls these were. Pure: no I/O, no clock; time comes in as an argument."""
