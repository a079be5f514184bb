"""Builds the site of the documentation into dist/docs: the pages of docs/, the examples, and the API reference.

Zensical reads a copy of the pages in which links that lead out of docs/ are rewritten, because a site has no sources.
The build is strict: a link or an anchor that leads nowhere fails it, and so does a page that needs another host.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath, PurePosixPath

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "dist" / "docs-source"
PAGES = BUILD / "pages"
SITE = ROOT / "dist" / "docs"
ZENSICAL = ROOT / ".peers" / "docs" / "bin" / "zensical"

MOVED = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
"""Pages that are not in docs/, and their paths on the site. The README is the home page of the repository only."""
EXAMPLES = "examples.md"
REFERENCE = (
    *("agents", "serving", "cluster", "client", "cli", "credentials", "security", "keys", "hardening", "push"),
    *("telemetry", "proxy", "check", "limits", "operations", "errors", "lifecycle", "losses", "protocol-library"),
    "glossary",
)
"""The order of the pages in docs/; others follow by name."""
NOT_SEARCHED = "decisions"
"""A folder that search leaves out, because its pages would come before those that say how a thing is done. Zensical
cannot rank them last."""
FOR_ENGINES = ("admit", "admit_to_task", "may_reply", "run", "release")
"""Methods of `Agent` that an engine calls; authors do not."""
API = ("parley", "parley.testing", "parley.client", "parley.server.app", "parley.adapters")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?:|mailto:)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
SHIM = re.compile(r"<script[^>]*unpkg\.com/iframe-worker[^>]*></script>")
FOREIGN = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+""")


def main() -> int:
    if not ZENSICAL.exists():
        print("Run `make docs`: it installs what the site is built with.", file=sys.stderr)
        return 1
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    copy_pages()
    (PAGES / EXAMPLES).write_text(examples_page())
    write_api_pages()
    settings = (DOCS / "site" / "zensical.toml").read_text()
    (BUILD / "zensical.toml").write_text(f"{with_navigation(settings)}\n{source_paths()}")
    done = subprocess.run([ZENSICAL, "build", "--strict"], cwd=BUILD)
    if done.returncode:
        return done.returncode
    shutil.move(BUILD / "site", SITE)
    return finish(SITE)


# --- pages ------------------------------------------------------------------------------------------------------------


def copy_pages() -> None:
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("*.toml"))
    for page in PAGES.rglob("*.md"):
        path = page.relative_to(PAGES).as_posix()
        text = with_site_links(page.read_text(), f"docs/{path}", path)
        page.write_text(f"---\nsearch:\n  exclude: true\n---\n{text}" if path.startswith(f"{NOT_SEARCHED}/") else text)
    for source, path in MOVED.items():
        if source != "README.md":
            (PAGES / path).parent.mkdir(exist_ok=True)
            (PAGES / path).write_text(with_site_links((ROOT / source).read_text(), source, path))


def with_site_links(text: str, source: str, path: str) -> str:
    """The text of a page whose links lead to pages of the site; where the site has none, the words stay."""

    def replace(link: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(source).parent / link["target"])
        found = path_on_site(PurePosixPath(target))
        if found is None:
            return link["text"]
        page, _, section = found.partition("#")
        anchor = link["anchor"] or (f"#{section}" if section else "")
        return f"[{link['text']}]({os.path.relpath(page, PurePosixPath(path).parent)}{anchor})"

    return outside_of_code(LINK, replace, text)


def path_on_site(target: PurePosixPath) -> str | None:
    """Where the site has a file of the repository."""
    if str(target) in MOVED:
        return MOVED[str(target)]
    if target.parts[0] == "examples":
        is_program = target.suffix == ".py" and (ROOT / target).is_file()
        return f"{EXAMPLES}#{anchor_of(target)}" if is_program else EXAMPLES
    if target.parts[0] == "docs" and not (ROOT / target).is_dir():  # also a page that is missing: the build then fails
        return str(PurePosixPath(*target.parts[1:]))
    return None


def outside_of_code(pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str) -> str:
    """The text with the pattern replaced, but not in fenced blocks."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else pattern.sub(replace, part) for part in parts)


def examples_page() -> str:
    programs = sorted((ROOT / "examples").rglob("*.py"), key=lambda path: (len(path.parts), path))
    sections = [
        f"## {name_of(path)} {{ #{anchor_of(path)} }}\n\n```python\n{path.read_text()}```\n" for path in programs
    ]
    return "# Examples\n\n`parley serve examples/hello.py` serves one of them.\n\n" + "\n".join(sections)


def name_of(program: PurePath) -> str:
    """The path of an example below examples/."""
    return "/".join(program.parts[program.parts.index("examples") + 1 :])


def anchor_of(program: PurePath) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name_of(program).lower())


# --- the API reference ------------------------------------------------------------------------------------------------


def write_api_pages() -> None:
    (PAGES / "api").mkdir()
    for name in API:
        names = list(public_names(name))
        if names:
            text = "".join(directive(entry, page=name) for entry in names)
            (PAGES / "api" / f"{name}.md").write_text(f"# {name}\n\n{text}")


def directive(name: str, *, page: str) -> str:
    """What makes Zensical document a name. A module with a page of its own has its name in the page's title."""
    options: dict[str, object] = {"show_root_heading": False, "show_root_toc_entry": False} if name == page else {}
    if page == "parley":
        options["filters"] = ["!^_", f"!^({'|'.join(FOR_ENGINES)})$"]
    lines = "".join(f"      {option}: {json.dumps(value)}\n" for option, value in options.items())
    return f"::: {name}\n" + (f"    options:\n{lines}" if lines else "") + "\n"


def public_names(module: str) -> Iterator[str]:
    """What the page of a module documents."""
    source = ROOT / "src" / Path(*module.split("."))
    if module == "parley.adapters":  # each framework has a module and a page of its own
        names = [page.stem.replace("-", "_") for page in sorted((DOCS / "adapters").glob("*.md"))]
        yield from (f"{module}.{name}" for name in names if (source / f"{name}.py").is_file())
    elif module == "parley.client":  # its names are imported when they are used, which only a type checker can see
        for node in ast.walk(ast.parse((source / "__init__.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("parley."):
                yield from (f"{node.module}.{name.name}" for name in node.names)
    elif source.is_dir() or source.with_suffix(".py").is_file():
        yield module


# --- settings ---------------------------------------------------------------------------------------------------------


def with_navigation(settings: str) -> str:
    navigation = json.dumps(sections(), ensure_ascii=False).replace('": ', '" = ')
    assert "\nnav = []\n" in settings
    return settings.replace("\nnav = []\n", f"\nnav = {navigation}\n")


def sections() -> list[dict[str, str | list[str]]]:
    own = [page.name for page in sorted(PAGES.glob("*.md")) if page.name not in ("index.md", EXAMPLES)]
    reference = sorted(own, key=lambda name: [*REFERENCE, name[:-3]].index(name[:-3]))
    found = {
        "Tutorial": folder("tutorial"),
        "How-to": folder("howto"),
        "Adapters": folder("adapters"),
        "Reference": [*reference, EXAMPLES],
        "API": [f"api/{name}.md" for name in API if (PAGES / "api" / f"{name}.md").exists()],
        "Decisions": folder("decisions"),
        "Project": folder("project"),
    }
    return [{"Home": "index.md"}, *({title: pages} for title, pages in found.items() if pages)]


def folder(name: str) -> list[str]:
    """The pages of a folder, its index first."""
    pages = sorted((PAGES / name).glob("*.md"), key=lambda page: (page.stem != "index", page.name))
    return [f"{name}/{page.name}" for page in pages]


def source_paths() -> str:
    return f"[project.plugins.mkdocstrings.handlers.python]\npaths = [{json.dumps(str(ROOT / 'src'))}]\n"


# --- the built site ---------------------------------------------------------------------------------------------------


def finish(site: Path) -> int:
    """Give search its own worker for local files, and look for references to other hosts."""
    foreign: list[str] = []
    for page in site.rglob("*.html"):
        prefix = "../" * (len(page.relative_to(site).parts) - 1)
        text = SHIM.sub(f'<script src="{prefix}site/local_worker.js"></script>', page.read_text())
        page.write_text(text)
        foreign += [f"{page.relative_to(site)}: {found}" for found in FOREIGN.findall(text)]
    for line in foreign:
        print(f"Needs another host: {line}", file=sys.stderr)
    if not foreign:
        print(f"Open {(site / 'index.html').relative_to(ROOT)}")
    return 1 if foreign else 0


if __name__ == "__main__":
    sys.exit(main())
