"""The page on security says what is there: every snippet runs, and every file in it can be read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.server.security.auth_file import parse_security

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
FILES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_every_snippet_runs() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 8
    subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(snippets)], check=True)


@pytest.mark.parametrize("text", FILES, ids=[text.split("]")[0].lstrip("[") for text in FILES])
def test_every_file_can_be_read(text: str) -> None:
    assert parse_security(text, environ={"LEGACY_SECRET": "s3cret"}).requirements


def test_every_type_of_scheme_has_an_example() -> None:
    types = re.findall(r'^type = "(.+)"$', PAGE, re.MULTILINE)
    assert set(types) == {"bearer", "api-key", "basic", "jwt", "oidc", "introspection", "mtls"}
