"""The pages say what is there: every module has its line, every carried key its row, every snippet runs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from parley.cli.main import app
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.server.app import App
from parley.server.limits import ServerLimits
from parley.server.listener.limits import ListenerLimits
from parley.server.security.auth_file import parse_security
from parley.server.security.throttle import RateLimits
from tests.server.serving import running
from tests.strategies import RESERVED_KEYS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "parley"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "golden" / "README.md"]
COMMAND_PAGES = [page for page in PAGES if page.parent.name not in ("decisions", "golden") and page.stem != "CHANGELOG"]
"""Pages whose commands a reader types. Decisions and the changelog are about their own time."""
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


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
    """Files and headings, as a reader of the repository finds them; `make docs` checks the same for the site."""
    for target, anchor in LINK.findall(outside_of_code(page)):
        found = page.parent / target if target else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target}#{anchor}"


def outside_of_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    headings = re.findall(r"^#+ (.+)$", outside_of_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_limit_that_a_page_names_exists(page: Path) -> None:
    limits = {kind.__name__: kind() for kind in (Limits, ServerLimits, RateLimits, DeliveryLimits, ListenerLimits)}
    for kind, name in re.findall(rf"`({'|'.join(limits)})\.(\w+)", page.read_text()):
        assert hasattr(limits[kind], name), f"{kind}.{name}"


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    for line in re.findall(r"(?:^[$#] |^|`)(parley [a-z].*?)(?:`|$)", page.read_text(), re.MULTILINE):
        words = re.split(r" +(?:[|;>&#]|2>)", line)[0].split()[1:]
        command: Any = get_command(app)
        while words and hasattr(command, "commands"):
            names = words.pop(0).split("|")
            assert [name for name in names if name not in command.commands] == [], line
            command = command.commands[names[0]]
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        named = {word.partition("=")[0].strip("…,.") for word in words if word.startswith("--")}
        assert named - options - {"--help"} == set(), line


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/howto/*.md")), ids=lambda page: page.stem)
def test_the_programs_and_settings_of_a_howto_page_can_be_pasted(page: Path) -> None:
    text = page.read_text()
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(program, page, "exec"), {})
    for settings in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        assert parse_security(settings, environ={}).requirements


def test_the_translation_on_the_page_runs() -> None:
    page = (ROOT / "docs" / "protocol-library.md").read_text()
    (snippet,) = re.findall(r"```python\n(from parley\.dialects.*?)```", page, re.DOTALL)
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


@pytest.mark.anyio
async def test_the_test_in_the_readme_passes() -> None:
    agent, *_, test = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(agent, defined)
    exec(test, defined)
    await defined["test_convert"](defined["agent"])


def test_the_readme_counts_the_recorded_exchanges_right() -> None:
    recorded = len(list((ROOT / "tests" / "golden").rglob("*.json")))
    assert f"{recorded} exchanges" in (ROOT / "README.md").read_text()
