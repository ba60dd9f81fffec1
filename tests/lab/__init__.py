# SPDX-License-Identifier: Apache-2.0
"""The lab: a real kernel with a real containerd in an emulated machine, for tests and the demo.

Everything it needs is unpacked into a cache, nothing is installed for it and nothing of the host
is changed.  `prepare.prepare()` gives the parts, `vm.Vm` boots them, `python -m lab` is the same
for people.  Standard library only: it runs before anything is installed.
"""
