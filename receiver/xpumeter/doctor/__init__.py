# SPDX-License-Identifier: Apache-2.0
"""What this host can do, what it cannot, and what would make it better; nothing is changed."""

from xpumeter.doctor.examination import Examination, examine

__all__ = ["Examination", "examine"]
