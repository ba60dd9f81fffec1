# SPDX-License-Identifier: Apache-2.0
"""Python in the guest, with guest_calls.py at hand."""

import json
import shutil
from pathlib import Path
from typing import Any

from lab.vm import Vm

LIMIT_S = 240


def guest(vm: Vm, code: str) -> Any:
    """What the code prints as JSON; it must end well."""
    shutil.copy(Path(__file__).with_name("guest_calls.py"), vm.work)
    (vm.work / "code.py").write_text(f"import json\nfrom guest_calls import *\n{code}")
    done = vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site:/vm" python3 /vm/code.py', LIMIT_S)
    assert done.rc == 0, done.output
    return json.loads(done.output)
