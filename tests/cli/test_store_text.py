"""URLs of stores as people may see them."""

import pytest

from parley.cli.output.store_text import has_password, store_text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///parley.db", "sqlite:///parley.db"),
        ("postgresql://parley@db:5432/tasks", "postgresql://parley@db:5432/tasks"),
        ("postgresql://parley:hush@db:5432/tasks", "postgresql://parley:***@db:5432/tasks"),
        ("postgresql://parley:hu@sh@db/tasks", "postgresql://parley:***@db/tasks"),
        ("postgresql://parley:hu/sh@db/tasks", "postgresql://parley:***@db/tasks"),
        ("postgresql://parley:hu#s?h@db/tasks", "postgresql://parley:***@db/tasks"),
        ("postgresql://:hush@db/tasks", "postgresql://:***@db/tasks"),
        ("postgresql:///tasks?user=a&password=hush&host=/run", "postgresql:///tasks?user=a&password=***&host=/run"),
        ("nats://user:hush@a:4222,user:hush@b:4222", "nats://user:***@b:4222"),
    ],
)
def test_a_password_in_a_url_is_not_shown(url: str, shown: str) -> None:
    assert (store_text(url), has_password(url)) == (shown, shown != url)
