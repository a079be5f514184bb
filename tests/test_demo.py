"""`make run` shows the conversation in every dialect."""

import pytest

from parley import demo
from parley.protocol.versions import Version


def test_the_demo_tells_the_whole_conversation_in_every_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    demo.main()

    said = capsys.readouterr().out
    assert "because only 0.1 has the method tasks/send" in said
    for version in Version:
        assert f"  {version}  " in said
    assert said.count("completed: '100 USD is 92.00 EUR.'") == 4
    assert "Invalid enum value 'boss' (at $.message.role)" in said
