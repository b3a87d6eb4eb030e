"""What the pages show is what happens: their blocks run, in order, in the folder and the shell of a reader."""

import socket
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, RUN, ExampleFailed, Page, blocks

PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])
SHOWING = [page for page in PAGES if any(block.language in RUN for block in blocks(page.read_text()))]

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    with Page(page, tmp_path) as reading:
        reading.run()


def test_the_pages_for_newcomers_show_something_that_runs() -> None:
    shown = {page.relative_to(ROOT).as_posix() for page in SHOWING}
    assert {"README.md", "docs/quickstart.md", "docs/chat.md", "docs/testing.md", "docs/workers.md"} <= shown


# ---- these checks can fail ----


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except ConnectionRefusedError:
        return False


def page(folder: Path, text: str) -> Page:
    (folder / "page.md").write_text(text)
    return Page(folder / "page.md", folder)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nassert False\n```\n", "line 1: ended with 1"),
        ("a word\n\n```sh\nfails() { return 3; }\nfails\ntrue\n```\n", "line 3: ended with 3"),
        ("```sh\nexit 0\n```\n", "line 1: ended the shell"),
        ("```sh\necho 1\n```\n\n<!-- output -->\n```text\n2\n```\n", "line 6: what was said is not this, but:\n1"),
        ("<!-- not run: -->\n```sh\nfalse\n```\n", "gives its reason"),
        ("<!-- also in: README.md -->\n```python\nnothing = 1\n```\n", "README.md does not hold this block"),
    ],
    ids=["python", "shell", "exit", "output", "no reason", "another file"],
)
def test_what_does_not_happen_is_found(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ExampleFailed, match=complaint), page(tmp_path, text) as reading:
        reading.run()


def test_blocks_share_a_folder_and_a_shell_and_await_may_stand_at_the_top(tmp_path: Path) -> None:
    text = """
<!-- file: words.py -->
```python
WORDS = ["a", "b"]
```

<!-- not run: it would last for ever -->
```sh
while true; do :; done
```

```sh
count=2
```

```sh
test $count = 2
```

```python
import asyncio
from words import WORDS

await asyncio.sleep(0)
print(WORDS)
```

<!-- output -->
```text
['a'…]
```

<!-- background -->
```sh
python -m http.server --bind 127.0.0.1 $UVICORN_PORT
```

```sh
curl -sf localhost:8000/words.py
```
"""
    with page(tmp_path, text) as reading:
        assert reading.run() == len(("count", "test", "print", "server", "curl"))
        assert answers(reading.port)
    while answers(reading.port):  # a process that was killed lets go of its port in its own time
        pass


def test_a_comment_in_the_text_hides_no_block_behind_it() -> None:
    text = "<!-- drawn: x -->\n| a |\n<!-- end -->\n\n```sh\necho a\n```\n\n<!-- output -->\n```text\na\n```\n"
    assert [(block.language, list(block.marks)) for block in blocks(text)] == [("sh", []), ("text", ["output"])]
