"""The pages say what is there: every module has its line, every carried key its row, every snippet runs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.server.app import App
from tests.server.serving import running
from tests.strategies import RESERVED_KEYS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "parley"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "golden" / "README.md"]


def test_the_architecture_names_every_module() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    modules = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" and not path.stem.endswith("_card")]
    assert [path.stem for path in modules if f"`{path.stem}`" not in page and f"/{path.stem}`" not in page] == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_holds_in_ten_lines_or_so(path: Path) -> None:
    docstring = path.read_text().split('"""')[1]
    assert docstring.strip()
    limit = 60 if path.stem == "errors" else 12  # the error tree is drawn in its docstring
    assert len(docstring.splitlines()) <= limit


def test_every_test_that_the_page_on_hardening_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "hardening.md").read_text())
    assert len(named) > 40
    assert [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_every_carried_key_is_documented() -> None:
    page = (ROOT / "docs" / "losses.md").read_text()
    assert [key for key in sorted(RESERVED_KEYS) if f"`{key}`" not in page and f"{key}:" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_translation_in_the_readme_runs() -> None:
    (snippet,) = re.findall(r"```python\n(from parley\.dialects.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["message"]["parts"] == [{"kind": "text", "text": "hi"}]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "said"), [("EUR", "100 USD is 92.00 EUR."), ("Dinar", "There is no rate for DINAR.")]
)
async def test_the_agent_and_the_client_in_the_readme_understand_each_other(answer: str, said: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    server, caller = blocks[0], next(block for block in blocks if block.startswith("from parley import Client"))
    served: dict[str, Any] = {}
    exec(server, served)
    async with running(App(served["agent"])) as http:
        called: dict[str, Any] = {}
        exec(caller.replace("http://127.0.0.1:8080", str(http.base_url)).replace('"EUR"', repr(answer)), called)
        assert await called["convert"]() == said


def test_the_readme_counts_the_recorded_exchanges_right() -> None:
    recorded = len(list((ROOT / "tests" / "golden").rglob("*.json")))
    assert f"{recorded} exchanges" in (ROOT / "README.md").read_text()
