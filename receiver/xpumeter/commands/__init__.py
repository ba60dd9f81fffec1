# SPDX-License-Identifier: Apache-2.0
"""The commands: one module each, with its arguments and what it prints.

Each module has `add(commands)`, which adds its parser. What a command does not need is not
imported: `attach` counts before gRPC or YAML would be loaded.
"""
