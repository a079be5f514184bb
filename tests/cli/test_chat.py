"""`parley chat`: piped lines, and a real terminal with Ctrl+C."""

import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from scripts.terminal import terminal

from parley import Agent
from parley.server.app import App
from tests.cli.sampler import SECONDS, on_a_port, parley, sampler_on_a_port

CTRL_C, CTRL_D = b"\x03", b"\x04"


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


def talk(url: str, *said: str, options: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """The exit code, and everything that is shown after the greeting."""
    done = parley("chat", url, *options, input="".join(f"{line}\n" for line in said))
    greeting, *shown = done.stdout.splitlines()
    assert greeting == "Talking to Sampler (JSONRPC 1.0). Type /help for help."
    return done.exit_code, shown


def test_what_is_piped_in_reads_as_a_conversation(url: str) -> None:
    assert talk(url, "hello", "", "count 3") == (0, ["> hello", "hello", "> ", "> count 3", "0 1 2 "])


def test_a_question_is_answered_in_place(url: str) -> None:
    shown = ["> ask", "What?", "answer> This", "You said: This", "> hi", "hi"]
    assert talk(url, "ask", "This", "hi") == (0, shown)


def test_what_was_shown_before_a_question_is_not_shown_again_after_the_answer(url: str) -> None:
    shown = ["> draft", "A draft. ", "Go on?", "answer> yes", "More? yes"]
    assert talk(url, "draft", "yes") == (0, shown)


def test_a_form_is_filled_in_field_by_field_and_mistakes_are_asked_again(url: str) -> None:
    code, shown = talk(url, "form", "much", "1000", "12.5", "", "car", "Train", "perhaps", "yes", "{", '["a"]')
    assert code == 0
    assert shown == [
        "> form",
        "What did you spend?",
        "Amount in EUR (a number): much",
        "Invalid answer: 'much'. Expected a number.",
        "Amount in EUR (a number): 1000",
        "amount: must be at most 500.",
        "Amount in EUR (a number): 12.5",
        "days (a whole number, optional): ",
        "How (train | plane): car",
        "Choose one of: train, plane.",
        "How (train | plane): Train",
        "Refund (yes or no, empty for false): perhaps",
        "Invalid answer: 'perhaps'. Expected yes or no.",
        "Refund (yes or no, empty for false): yes",
        "Tags (a JSON array, optional): {",
        "Invalid JSON: '{'.",
        'Tags (a JSON array, optional): ["a"]',
        "{",
        '  "amount": 12.5,',
        '  "kind": "train",',
        '  "refund": true,',
        '  "tags": [',
        '    "a"',
        "  ]",
        "}",
    ]


def test_the_exit_code_of_piped_lines_is_that_of_the_last_reply(url: str) -> None:
    assert talk(url, "hello", "fail") == (1, ["> hello", "hello", "> fail", "Failed: The vault is empty"])
    assert talk(url, "ask")[0] == 4
    assert talk(url, "form")[0] == 4
    assert talk(url, "fail", "/quit")[0] == 0


def test_files_are_saved_and_sent(url: str, tmp_path: Path) -> None:
    (tmp_path / "a note.txt").write_text("…")
    said = ["work", f"/file '{tmp_path / 'a note.txt'}'", "parts", "/file /nowhere/at.all", "/file '"]
    code, shown = talk(url, *said, options=("--save", str(tmp_path)))
    assert (tmp_path / "data.csv").read_bytes() == b"1,2"
    assert code == 0
    assert f"Saved {tmp_path}/data.csv (text/csv, 3 bytes)" in shown
    assert shown[-5:] == [
        "TextPart, RawPart",
        "> /file /nowhere/at.all",
        "/nowhere/at.all cannot be read: No such file or directory",
        "> /file '",
        "No closing quotation",
    ]


def test_files_go_into_a_folder_of_their_own(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert talk(url, "hello") == (0, ["> hello", "hello"])
    assert list(tmp_path.iterdir()) == []
    shown = talk(url, "work", "work")[1]
    assert [line for line in shown if line.startswith("Saved")] == [
        "Saved parley-files/data.csv (text/csv, 3 bytes)",
        "Saved parley-files/data-2.csv (text/csv, 3 bytes)",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["parley-files"]


def two_skills() -> App:
    agent = Agent("Two", description="Has two skills")

    @agent.skill
    async def greet(turn: Any) -> str:
        """Greets."""
        return f"Hello {(await turn.ask('Who are you?')).text}"

    @agent.skill
    async def shout(turn: Any) -> str:
        """Shouts."""
        return turn.text.upper()

    return App(agent, drain_seconds=0)


def test_a_skill_can_be_chosen_and_one_that_is_not_there_is_told_before_anything_is_sent() -> None:
    with on_a_port(two_skills) as url:
        done = parley("chat", url, "--skill", "greet", input="hi\nAda\nhi\n")
        assert done.stdout.splitlines()[1:] == [
            "> hi",
            "Who are you?",
            "answer> Ada",
            "Hello Ada",
            "> hi",
            "Who are you?",
        ]
        assert parley("send", url, "hi", "--skill", "shout").stdout == "HI\n"
        for command in (("chat", url), ("send", url, "hi"), ("send", url, "hi", "--no-stream")):
            wrong = parley(*command, "--skill", "nope")
            told = "Error: The agent has no skill 'nope'; it has greet, shout.\n"
            assert (wrong.exit_code, wrong.stdout, wrong.stderr) == (2, "", told)
        assert len(parley("tasks", "list", url).stdout.splitlines()) == 3


def test_commands_begin_with_a_slash(url: str) -> None:
    code, shown = talk(url, "/help", "/ids", "//etc", "/what", "/new", "/ids")
    assert code == 0
    assert "> /help" in shown
    assert "Ctrl+C       cancel the current task" in shown
    assert "context –, task –" in shown
    assert shown[-8:-1] == [
        "> //etc",
        "/etc",
        "> /what",
        "Unknown command: /what. Type /help for help.",
        "> /new",
        "New conversation.",
        "> /ids",
    ]
    assert shown[-1].startswith("context –, task ")


def test_a_conversation_has_one_context(url: str) -> None:
    _, shown = talk(url, "hello", "/ids", "hello", "/ids", options=("--context", "c-7"))
    contexts = [line.split(",")[0] for line in shown if line.startswith("context ")]
    assert contexts == ["context c-7", "context c-7"]


def test_a_task_that_waits_can_be_gone_on_with(url: str) -> None:
    task = parley("send", url, "ask").stderr.split()[-1]
    assert talk(url, "That", options=("--task", task)) == (0, ["What?", "answer> That", "You said: That"])
    assert talk(url, "hi", options=("--task", "nope"))[1] == ["Error: Task not found (taskId nope).", "> hi", "hi"]


def test_a_form_of_a_given_task_is_filled_in_and_sent(url: str) -> None:
    task = parley("send", url, "form", "--no-stream", "--json").stdout.split('"id":"')[1].split('"')[0]
    code, shown = talk(url, "1", "", "train", "", "", "hi", options=("--task", task))
    assert (code, shown[-7:]) == (
        0,
        ["{", '  "amount": 1,', '  "kind": "train",', '  "refund": false', "}", "> hi", "hi"],
    )


def test_a_question_whose_answer_was_refused_can_be_answered_again(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"x")
    agent = Agent("Reader", description="Reads.", input_modes=["text/plain"])

    @agent.on_message
    async def read(turn: Any) -> Any:
        yield "Read: " + (await turn.ask("What?")).text

    with on_a_port(lambda: App(agent)) as url:
        done = parley("chat", url, input=f"hi\n/file {tmp_path / 'photo.png'}\nThis\nThat\n")
    said = [line for line in done.stdout.splitlines() if "photo" not in line]
    assert said[1:4] == ["> hi", "What?", "The file goes with your next message."]
    assert said[4] == "answer> This"
    assert said[5].startswith("Error: ")
    assert said[6:] == ["answer> That", "Read: That"]


def test_a_file_needs_a_name_and_may_be_at_home(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "note.txt").write_text("a note")
    shown = talk(url, "/file", "/file ~/note.txt", "parts")[1]
    assert shown == [
        "> /file",
        "Which file? Write it as /file PATH",
        "> /file ~/note.txt",
        "The file goes with your next message.",
        "> parts",
        "TextPart, RawPart",
    ]


def test_an_agent_that_replies_with_messages_keeps_its_context() -> None:
    agent = Agent("Oracle", description="Knows.", replies_directly=True)

    @agent.on_message
    async def say(turn: object) -> str:
        return "Yes."

    with on_a_port(lambda: App(agent)) as url:
        done = parley("chat", url, input="So?\n/ids\n")
    assert done.stdout.splitlines()[1:3] == ["> So?", "Yes."]
    assert done.stdout.splitlines()[-1].endswith(", task –")


def test_an_agent_that_cannot_be_reached_ends_the_chat() -> None:
    done = parley("chat", "127.0.0.1:9", input="hi\n")
    assert (done.exit_code, done.stdout) == (3, "")


def test_in_a_terminal_lines_are_typed_and_ctrl_d_ends_it(url: str, tmp_path: Path) -> None:
    with terminal("chat", url, cwd=tmp_path) as chat:
        chat.until("> ")
        chat.type("hello")
        assert chat.until("\n> ").replace("\r", "").endswith("hello\nhello\n> ")
        chat.type("fail")
        chat.until("Failed: The vault is empty\n> ")
        chat.press(CTRL_D)
        assert chat.ended() == 0


def test_ctrl_c_cancels_the_task_and_the_chat_goes_on(url: str, tmp_path: Path) -> None:
    with terminal("chat", url, cwd=tmp_path) as chat:
        chat.until("> ")
        chat.type("wait")
        chat.until("· waiting\n")
        chat.press(CTRL_C)
        chat.until("Canceled.\n> ")
        chat.type("/ids")
        task = chat.until("\n> ").split("task ")[1].split()[0]
        assert '"TASK_STATE_CANCELED"' in parley("tasks", "show", url, task, "--json").stdout
        chat.type("still there?")
        chat.until("\nstill there?\n> ")
        chat.press(CTRL_D)
        assert chat.ended() == 0


def test_ctrl_c_cancels_what_waits_for_an_answer_or_a_form(url: str, tmp_path: Path) -> None:
    with terminal("chat", url, cwd=tmp_path) as chat:
        for said, prompt in (("ask", "answer> "), ("form", "Amount in EUR (a number): ")):
            chat.until("> ")
            chat.type(said)
            chat.until(prompt)
            chat.interrupt("Canceled.\n")
        chat.until("> ")
        chat.interrupt("Press Ctrl+D or type /quit to end the chat.\n> ")
        chat.type("/quit")
        assert chat.ended() == 0


def test_ctrl_d_ends_the_chat_in_a_form_too(url: str, tmp_path: Path) -> None:
    with terminal("chat", url, cwd=tmp_path) as chat:
        chat.until("> ")
        chat.type("form")
        chat.until("Amount in EUR (a number): ")
        chat.press(CTRL_D)
        assert chat.ended() == 0
        assert chat.shown.endswith("Amount in EUR (a number): \n")


def test_what_cannot_be_canceled_is_told_and_the_chat_goes_on(url: str, tmp_path: Path) -> None:
    with terminal("chat", url, cwd=tmp_path) as chat:
        chat.until("> ")
        chat.type("ask")
        chat.until("answer> ")
        chat.type("/ids")
        task = chat.until("answer> ").split("task ")[1].split()[0]
        assert parley("tasks", "cancel", url, task).exit_code == 0
        chat.interrupt("The task could not be canceled: Task cannot be canceled")
        chat.until("> ")
        chat.press(CTRL_D)
        assert chat.ended() == 0


def test_a_call_that_goes_wrong_is_told_and_the_chat_goes_on(url: str, tmp_path: Path) -> None:
    task = parley("send", url, "ask").stderr.split()[-1]
    with terminal("chat", url, "--task", task, cwd=tmp_path) as chat:
        chat.until("answer> ")
        assert parley("tasks", "cancel", url, task).exit_code == 0
        chat.type("That")
        chat.until("Error: The task has ended")
        chat.until("\n> ")
        chat.type("hello")
        chat.until("\nhello\n> ")
        chat.type("/quit")
        assert chat.ended() == 0


def test_an_interrupted_pipe_ends_with_130(url: str) -> None:
    command = [sys.executable, "-m", "parley.cli.main", "chat", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write("wait\n")
        chat.stdin.flush()
        assert any(line == "· waiting\n" for line in chat.stdout)
        chat.send_signal(signal.SIGINT)
        rest, _ = chat.communicate(timeout=SECONDS)
    assert (chat.returncode, rest) == (130, "Canceled.\n")
