"""The page adds events up as the server does: its tests replay streams that the server has folded."""

from tests.console.fold_cases import CASES, written


def test_the_streams_that_the_page_replays_are_folded_as_the_server_folds_them_now() -> None:
    assert CASES.read_text(encoding="utf-8") == written(), "write them again: python -m tests.console.fold_cases"
