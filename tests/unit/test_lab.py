# SPDX-License-Identifier: Apache-2.0
"""What the lab reads from the host and from the lock, without a VM."""

from pathlib import Path

import pytest

from lab.cache import Cache
from lab.errors import LabError
from lab.sources import host_sources
from lab.wheels import pins

SUITES = ["bookworm", "bookworm-updates", "bookworm-security"]

DEB822 = """\
Types: deb deb-src
# our mirror
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF

Types: deb
URIs: http://mirror.example/other
Suites: bookworm
Components: main
Enabled: no
"""
ONE_LINE = """\
# deb http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/d.gpg] http://mirror.example/debian bookworm main
deb http://vendor.example/apt bookworm main
deb-src http://mirror.example/debian bookworm main
"""


@pytest.fixture
def etc_apt(tmp_path: Path) -> Path:
    """An empty /etc/apt."""
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_a_deb822_entry_keeps_its_key_and_gives_backports_the_same(etc_apt: Path) -> None:
    """A key that stands in the entry goes with each suite; a disabled entry is no source."""
    (etc_apt / "sources.list.d/debian.sources").write_text(DEB822)

    stanzas = host_sources(etc_apt, SUITES, ["bookworm-backports"]).split("\n\n")

    suites = ["bookworm", "bookworm-updates", "bookworm-backports"]
    assert all(f"Suites: {suite}\n" in each for suite, each in zip(suites, stanzas, strict=True))
    assert all("Signed-By: \n -----BEGIN" in stanza for stanza in stanzas)
    assert all("Uris: http://mirror.example/debian\n" in stanza for stanza in stanzas)


def test_a_one_line_entry_keeps_its_options(etc_apt: Path) -> None:
    """Comments, source packages and other vendors' archives are left out."""
    (etc_apt / "sources.list").write_text(ONE_LINE)

    assert host_sources(etc_apt, SUITES, []) == (
        "Signed-By: /usr/share/keyrings/d.gpg\n"
        "Uris: http://mirror.example/debian\n"
        "Suites: bookworm\n"
        "Components: main\n"
        "Types: deb\n"
    )


def test_a_host_without_debian_sources_is_told_so(etc_apt: Path) -> None:
    """One line that names the suite."""
    with pytest.raises(LabError, match=r"^no apt source for bookworm main below "):
        host_sources(etc_apt, SUITES, [])


def test_a_pin_carries_its_hashes() -> None:
    """So that what the guest gets is what the lock names."""
    lock = (
        "# comment\na-b==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\nc==2\n"
    )

    assert pins(lock) == {
        "a-b": "a-b==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb",
        "c": "c==2",
    }


def test_an_interrupted_build_leaves_no_entry(tmp_path: Path) -> None:
    """The next run builds it again, from nothing; a finished one is not built twice."""
    cache = Cache(tmp_path)
    builds = []

    def interrupted(into: Path) -> None:
        (into / "half").touch()
        raise KeyboardInterrupt

    def whole(into: Path) -> None:
        builds.append(sorted(into.iterdir()))
        (into / "all").touch()

    with pytest.raises(KeyboardInterrupt):
        cache.entry("thing", "key", interrupted)
    first = cache.entry("thing", "key", whole)

    assert cache.entry("thing", "key", whole) == first
    assert [path.name for path in first.iterdir()] == ["all"]
    assert builds == [[]]
