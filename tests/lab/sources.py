# SPDX-License-Identifier: Apache-2.0
"""The host's own apt sources, read from either of their two formats, for suites of our choice."""

import re
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError

ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<parts>.+)"
)


def host_sources(etc_apt: Path, suites: Sequence[str], extra: Sequence[str]) -> str:
    """A deb822 file with the host's entries for these Debian suites.

    `extra` suites come from the same mirror and with the same keys as the first of `suites`,
    whether the host has them or not.

    Raises:
        LabError: the host has no source for the first suite.
    """
    found = [
        {**entry, "Types": "deb", "Suites": suite, "Components": "main"}
        for entry in _entries(etc_apt)
        for suite in entry.get("Suites", "").split()
        if suite in suites and "main" in entry.get("Components", "").split()
    ]
    # Other vendors publish under Debian's code names too.
    debian = [entry for entry in found if re.search(r"/debian(-security)?/?$", entry["Uris"])]
    found = debian or found
    main = [entry for entry in found if entry["Suites"] == suites[0]]
    if not main:
        raise LabError(
            f"no apt source for {suites[0]} main below {etc_apt}",
            hint="the lab takes kernel, containerd and QEMU from the host's Debian mirror",
        )
    found += [{**main[0], "Suites": suite} for suite in extra]
    unique = {tuple(sorted(entry.items())): entry for entry in found}
    return "\n".join(
        "".join(f"{field}: {value}\n" for field, value in entry.items())
        for entry in unique.values()
    )


def _entries(etc_apt: Path) -> list[dict[str, str]]:
    entries = []
    for path in [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*.list"))]:
        if path.exists():
            entries += _one_line(path.read_text())
    for path in sorted((etc_apt / "sources.list.d").glob("*.sources")):
        entries += _deb822(path.read_text())
    return entries


def _one_line(text: str) -> list[dict[str, str]]:
    entries = []
    for line in text.splitlines():
        if match := ONE_LINE.match(line.split("#")[0].strip()):
            options = dict(
                option.split("=", 1) for option in (match["options"] or "").split() if "=" in option
            )
            options.pop("arch", None)
            entry = {name.title(): value.replace(",", " ") for name, value in options.items()}
            entry |= {"Uris": match["uri"], "Suites": match["suite"], "Components": match["parts"]}
            entries.append(entry)
    return entries


def _deb822(text: str) -> list[dict[str, str]]:
    entries = []
    for stanza in re.split(r"\n\s*\n", text):
        entry: dict[str, str] = {}
        field = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and field:
                entry[field] += "\n" + line  # a key may stand in the file itself
            elif ":" in line:
                name, _, value = line.partition(":")
                field = name.strip().title()
                entry[field] = value.strip()
        entry.pop("Architectures", None)
        binary = "deb" in entry.get("Types", "").split()
        if binary and entry.get("Enabled", "yes").lower() not in ("no", "false", "0"):
            entries.append(entry)
    return entries
