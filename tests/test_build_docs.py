"""The script behind `make docs`: what it does to the pages before the site is built, and to the site afterwards."""

from pathlib import Path

import pytest
from scripts import build_docs


@pytest.mark.parametrize(
    ("source", "path", "before", "after"),
    [
        ("docs/index.md", "index.md", "[x](agents.md#streams)", "[x](agents.md#streams)"),
        ("docs/index.md", "index.md", "[x](../examples/hello.py)", "[x](examples.md#hello-py)"),
        ("docs/howto/upgrade.md", "howto/upgrade.md", "[x](../../CHANGELOG.md)", "[x](../project/changelog.md)"),
        ("ARCHITECTURE.md", "project/architecture.md", "[x](docs/glossary.md)", "[x](../glossary.md)"),
        ("docs/check.md", "check.md", "[rules](../src/parley/check/rules.py)", "rules"),
        ("docs/index.md", "index.md", "[x](missing.md)", "[x](missing.md)"),
        ("docs/index.md", "index.md", "```\n[x](../src)\n```", "```\n[x](../src)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(source: str, path: str, before: str, after: str) -> None:
    assert build_docs.with_site_links(before, source, path) == after


def test_the_client_s_public_names_are_in_the_reference() -> None:
    names = set(build_docs.public_names("parley.client"))
    assert {"parley.client.client.Client", "parley.client.options.Retries", "parley.protocol.tasks.Task"} <= names


def test_a_module_is_named_once_on_its_page_and_methods_for_engines_are_left_out() -> None:
    assert build_docs.directive("parley.testing", page="parley.testing") == (
        "::: parley.testing\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n\n"
    )
    assert "admit_to_task|may_reply" in build_docs.directive("parley", page="parley")
    assert build_docs.directive("parley.client.Client", page="parley.client") == "::: parley.client.Client\n\n"


def test_search_gets_its_own_worker_and_a_page_that_needs_another_host_fails_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_docs, "ROOT", tmp_path)
    page = tmp_path / "howto" / "page.html"
    page.parent.mkdir()
    page.write_text('<script src="https://unpkg.com/iframe-worker/shim"></script><a href="https://a.example">a</a>')
    assert build_docs.finish(tmp_path) == 0
    assert page.read_text().startswith('<script src="../site/local_worker.js"></script>')
    page.write_text('<link rel="stylesheet" href="https://fonts.example/font.css">')
    assert build_docs.finish(tmp_path) == 1
    assert "howto/page.html" in capsys.readouterr().err
