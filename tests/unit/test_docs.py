# SPDX-License-Identifier: Apache-2.0
"""Documents say what is there: links, commands, licences, nothing left to fill in."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from xpumeter import cli

ROOT = Path(__file__).parents[2]
GENERATED = {"build", "dist", "node_modules", "__pycache__"}

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[ /])xpumeter ([a-z][a-z-]*)\b")
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)


def files(*suffixes: str, folder: Path = ROOT) -> Iterator[Path]:
    """Files of the checkout with such a name; nothing generated, nothing hidden but .ci."""
    for path in sorted(folder.iterdir()):
        if path.name in GENERATED or (path.name.startswith(".") and path.name != ".ci"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(*suffixes, folder=path)
        elif path.suffix in suffixes and not path.stem.endswith("_pb2"):
            yield path


DOCUMENTS = list(files(".md"))
SOURCES = list(files(".py", ".c", ".h", ".sh", ".yaml"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def without_code(text: str) -> str:
    """Prose only: no fenced or indented blocks, no inline code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return INLINE.sub("", re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE))


def code(text: str) -> Iterator[str]:
    """Lines of fenced and indented blocks."""
    fence = ""
    for line in text.splitlines():
        mark = line[:3]
        if mark in {"```", "~~~"} and fence in {"", mark}:
            fence = "" if fence else mark
        elif fence or line.startswith("    "):
            yield line.strip()


def anchors(document: Path) -> set[str]:
    """What `#...` may name in a document: its headings, as forges spell them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_there_are_documents() -> None:
    """So that the tests below look at something."""
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"} <= set(
        map(name, DOCUMENTS)
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    """A relative link names a file of the checkout and, after `#`, a heading in it."""
    for link in LINK.findall(without_code(document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_make_is_asked_for_what_it_can_do(document: Path) -> None:
    """`make TARGET` in code names a target of the Makefile."""
    text = document.read_text()
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    snippets = [*code(text), *INLINE.findall(text)]

    asked = {found[1] for each in snippets if (found := re.match(r"make ([a-z][a-z-]*)\b", each))}

    assert asked <= targets


def test_the_readme_shows_the_two_commands() -> None:
    """What a newcomer types first stands in the first screen, in code."""
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:30])

    assert {"make demo", "make test"} <= set(code(first_screen))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_exist(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`xpumeter COMMAND` in code is a command of the command line."""
    text = document.read_text()
    snippets = [*code(text), *INLINE.findall(text)]

    for command in {found for each in snippets for found in COMMAND.findall(each)}:
        with pytest.raises(SystemExit) as done:
            cli.main([command, "--help"])
        assert done.value.code == 0, f"{command}: {capsys.readouterr().err}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_nothing_is_left_to_fill_in(document: Path) -> None:
    """No placeholder stands where a measured value belongs."""
    assert re.findall(r"@[A-Z][A-Z0-9_]+@", document.read_text()) == []


def test_every_decision_is_listed() -> None:
    """The architecture links each page of docs/decisions, in the order of their numbers."""
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    linked = LINK.findall((ROOT / "docs/architecture.md").read_text())

    assert len({page.name[:4] for page in pages}) == len(pages)
    assert [f"decisions/{page.name}" for page in pages] == [
        link for link in linked if link.startswith("decisions/")
    ]


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda page: page.stem
)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    """Context, decision, consequences, and what was rejected; the title has the page's number."""
    text = page.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)

    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert [heading for heading in headings if heading not in {"Measured", "Evidence"}] == [
        "Context",
        "Decision",
        "Consequences",
        "Rejected",
    ]


@pytest.mark.parametrize("file", SOURCES, ids=name)
def test_every_file_names_its_licence(file: Path) -> None:
    """In one of its first two lines; bpf/ is the kernel's, the rest Apache's."""
    licence = "GPL-2.0-only" if file.is_relative_to(ROOT / "bpf") else "Apache-2.0"
    head = file.read_text().splitlines()[:2]

    assert any(f"SPDX-License-Identifier: {licence}" in line for line in head)
