# SPDX-License-Identifier: Apache-2.0
"""Trees for people: what `xpumeter devices --tree` prints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Branch:
    """One line of a tree, `text`, with what hangs below it by name, in the order it came."""

    text: str = ""
    below: dict[str, "Branch"] = field(default_factory=dict)


def plant(paths: Sequence[Sequence[str]], texts: Mapping[str, str]) -> Branch:
    """The tree of these paths. A step without a text of its own is shown by its name."""
    root = Branch()
    for path in paths:
        branch = root
        for step in path:
            branch = branch.below.setdefault(step, Branch(texts.get(step, step)))
    return root


def render(root: Branch) -> str:
    """Lines for all below `root`: the first level at the margin, each further one drawn."""
    return "\n".join(line for top in root.below.values() for line in (top.text, *_below(top, "")))


def _below(branch: Branch, margin: str) -> Iterator[str]:
    below = list(branch.below.values())
    for each in below:
        last = each is below[-1]
        yield f"{margin}{'└─ ' if last else '├─ '}{each.text}"
        yield from _below(each, margin + ("   " if last else "│  "))
