"""Where the admin token comes from, and who may read it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from parley.host.data.admin_token import VARIABLE, AdminTokenError, is_admin_token, load_admin_token


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "made" / "admin_token"
    token, was_created = load_admin_token(file, {})
    assert was_created
    assert re.fullmatch(r"adm_[0-9a-f]{64}", token)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_admin_token(file, {}) == (token, False)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "admin_token"
    assert load_admin_token(file, {VARIABLE: " adm_own "}) == ("adm_own", False)
    assert not file.exists()
    with pytest.raises(AdminTokenError, match=VARIABLE):
        load_admin_token(file, {VARIABLE: "two words"})


def test_a_file_that_others_can_read_is_refused_with_the_cure(tmp_path: Path) -> None:
    file = tmp_path / "admin_token"
    load_admin_token(file, {})
    file.chmod(0o640)
    with pytest.raises(AdminTokenError, match=f"chmod 600 {re.escape(str(file))}"):
        load_admin_token(file, {})


def test_an_empty_file_and_a_link_to_nothing_are_refused(tmp_path: Path) -> None:
    empty, link = tmp_path / "empty", tmp_path / "link"
    os.close(os.open(empty, os.O_CREAT, 0o600))
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(AdminTokenError, match="no valid admin token"):
        load_admin_token(empty, {})
    with pytest.raises(AdminTokenError, match="cannot be read"):
        load_admin_token(link, {})
    assert not (tmp_path / "nowhere").exists()


def test_a_path_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "token", tmp_path / "file" / "deep" / "token"):
        with pytest.raises(AdminTokenError, match=re.escape(str(path))):
            load_admin_token(path, {})


def test_only_the_token_itself_is_the_token() -> None:
    assert is_admin_token("adm_1", "adm_1")
    assert not is_admin_token("adm_1", "adm_2")
    assert not is_admin_token("adm_1", "")
    assert not is_admin_token("adm_1", "adm_\udcff")
