# SPDX-License-Identifier: Apache-2.0
"""Builds what the wheel carries beside Python: the BPF object, and the messages of cri.proto."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = "clang llvm libbpf-dev libc6-dev make"


class Build(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        missing = [tool for tool in ("clang", "llvm-strip", "make") if not shutil.which(tool)]
        make = ["make", "--no-print-directory", "-s", "-C", root / "bpf"]
        if missing or subprocess.run(make, check=False).returncode:
            what = f"needs {missing[0]}" if missing else "does not build"
            sys.exit(f"xpumeter: the BPF object {what}: apt-get install {PACKAGES}")
        source = root / "receiver/xpumeter/source"
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{source}"),
                *(f"--python_out={source}", f"--pyi_out={source}", "cri.proto"),
            ],
            check=True,
        )
