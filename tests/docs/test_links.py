"""Every link of the pages leads somewhere, every page is found, and the site asks no other host for anything."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "zensical.toml"
TEXTS = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("examples/*/*.md")]
ZENSICAL = Path(sys.executable).with_name("zensical")


def prose(text: str) -> str:
    """Return a page without its code, in which brackets mean something else."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text: str) -> set[str]:
    """Return what a link may name in a page: its headings, as sites and hosts of code spell them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """Find the links of a page that lead nowhere, without asking any other host."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.name}: there is no {link}"
        elif page.parent == DOCS and not target.is_relative_to(DOCS):
            yield f"{page.name}: {link} is no page, and the site will not have it: write its path as code"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{page.name}: {target.name} has no heading for #{anchor}"


def named(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Return the pages that a navigation names."""
    for entry in entries:
        for place in entry.values():
            if isinstance(place, str):
                yield place
            else:
                yield from named(place)


def elsewhere(html: str) -> list[str]:
    """Find what a page would ask another host for before anybody clicks."""
    html = re.sub(r"<a [^>]*>", "", html)
    return re.findall(r"(?:src|href|srcset)=[\"']?((?:https?:)?//[^\"' >]+)", html)


def test_every_link_leads_somewhere() -> None:
    found = [complaint for page in TEXTS for complaint in broken(page)]
    assert not found, "\n".join(found)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = list(named(tomllib.loads(SITE.read_text())["project"]["nav"]))
    assert sorted(pages) == sorted(page.name for page in DOCS.glob("*.md")), "the `nav` of zensical.toml names pages"


def test_the_site_is_built_holds_every_page_and_asks_no_other_host(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(SITE, tmp_path)
    done = subprocess.run(
        [ZENSICAL, "build", "--strict"], cwd=tmp_path, check=False, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = {page.stem: page.read_text() for page in (tmp_path / "site").glob("*.html")}
    assert built.keys() >= {page.stem for page in DOCS.glob("*.md")}
    assert {name: elsewhere(html) for name, html in built.items() if elsewhere(html)} == {}
    assert not [name for name, html in built.items() if 'class="mermaid"' in html], "its script is another host's"
    assert not list((tmp_path / "site").rglob("*.py"))
    assert 'src="transitions.svg"' in built["recovery"]


# ---- these checks can fail ----


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[x](nowhere.md)", "there is no nowhere.md"),
        ("[x](glossary.md#nothing-at-all)", "glossary.md has no heading for #nothing-at-all"),
        ("[x](../README.md)", "is no page"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(sys.modules[__name__], "DOCS", tmp_path / "docs")
    (tmp_path / "README.md").touch()
    (tmp_path / "docs" / "glossary.md").write_text("# Glossary\n\n## The server's words\n")
    page = tmp_path / "docs" / "page.md"
    page.write_text(f"{text} [fine](glossary.md#the-servers-words) `[code](nowhere)`\n")
    (found,) = broken(page)
    assert complaint in found


def test_another_host_is_found_and_a_link_for_people_is_not() -> None:
    assert elsewhere('<a href="https://example.org"></a><script src=//example.org/x.js></script>') == [
        "//example.org/x.js"
    ]
