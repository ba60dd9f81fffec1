#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `xpumeter` in the guest: XPUMETER_APP, which each job gets, is the tree of the checkout's wheel.
# As the script that pip makes for it.
PYTHONPATH="$XPUMETER_APP:/opt/site" exec python3 -c '
import sys
from xpumeter.cli import main
sys.exit(main())' "$@"
