# SPDX-License-Identifier: Apache-2.0
"""Where the programs attach, and where they are pinned unless a configuration says otherwise.

Apart from the other nouns, since `attach` counts before it would have imported those.
"""

from enum import StrEnum
from pathlib import Path

PINS = Path("/sys/fs/bpf/xpumeter")


class Hook(StrEnum):
    """Best first (docs/decisions/0005)."""

    FEXIT = "fexit"
    KPROBE = "kprobe"
    FILE_IOCTL = "file_ioctl"
    BCC = "bcc"
