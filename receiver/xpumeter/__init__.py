# SPDX-License-Identifier: Apache-2.0
"""Counts what each container asks of the kernel's accelerator drivers, and exports the counts."""
