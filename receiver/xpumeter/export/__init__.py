# SPDX-License-Identifier: Apache-2.0
"""What leaves the host. May touch the network."""
