# SPDX-License-Identifier: Apache-2.0
"""Everything a VM is made of, from the cache or built into it."""

from dataclasses import dataclass
from pathlib import Path

from lab.cache import Cache, cache_root
from lab.debian import Apt, codename
from lab.guestfiles import guest_files
from lab.initrd import initrd
from lab.kernel import DEFAULT, METAPACKAGES, Kernel, kernel_of
from lab.root import guest_root
from lab.tools import Tools, host_tools
from lab.wheels import runtime_site

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Parts:
    """What does not change with xpumeter's own code; folders of the cache."""

    cache: Cache
    tools: Tools
    root: Path
    site: Path
    guest: Path


def parts() -> Parts:
    """All parts but a kernel: 30 s with an empty cache, at once with a full one."""
    cache = Cache(cache_root())
    apt = Apt(cache)
    tools = host_tools(cache, apt)
    root = guest_root(cache, apt)
    return Parts(cache, tools, root, runtime_site(cache, root, CHECKOUT), guest_files(cache, root))


def metapackages() -> tuple[str, ...]:
    """Of the kernels that this host's Debian has, its own first."""
    return METAPACKAGES.get(codename(), DEFAULT)


def kernel(made: Parts, metapackage: str) -> tuple[Kernel, Path]:
    """A kernel and its initramfs."""
    found = kernel_of(made.cache, Apt(made.cache), made.tools, metapackage)
    return found, initrd(made.cache, made.tools, found, made.root)
