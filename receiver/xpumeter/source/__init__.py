# SPDX-License-Identifier: Apache-2.0
"""What the machine says: rows, events, names, devices, containers. May touch the machine."""
