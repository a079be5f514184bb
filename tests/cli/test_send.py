"""`parley send` against a served agent: what it says where, and how it ends."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from parley.cli.input import message as inputs
from parley.cli.main import app as cli
from parley.protocol.messages import UrlPart
from parley.protocol.versions import Version
from tests.cli.sampler import SECONDS, parley, sampler_on_a_port


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "how",
    [(), ("--no-stream",), ("--binding", "http+json"), *(("--dialect", version) for version in Version)],
)
def test_the_answer_goes_to_standard_output_and_nothing_else_does(url: str, how: tuple[str, ...]) -> None:
    done = parley("send", url, "hello", "there", *how)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hello there\n", "")


def test_notes_go_to_standard_error_and_do_not_break_the_text_that_flows(url: str) -> None:
    done = parley("send", url, "work")
    assert done.exit_code == 0
    assert done.stdout == '# Report\none\n{\n  "rows": 1\n}\nbig.zip: https://files.example/big.zip\n'
    assert done.stderr.splitlines() == [
        '· half-way {"percent":50}',
        "— report.md",
        "File data.csv (text/csv, 3 bytes). --save DIR keeps it.",
    ]


def test_json_is_one_event_per_line_as_1_0_spells_them(url: str) -> None:
    events = lines(parley("send", url, "count 2", "--json").stdout)
    assert [next(iter(event)) for event in events] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_json_without_a_stream_is_the_task(url: str) -> None:
    (reply,) = lines(parley("send", url, "hello", "--no-stream", "--json").stdout)
    assert reply["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert reply["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]


def test_files_and_data_are_sent_in_order(url: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    (tmp_path / "data.json").write_text("[1]")
    options = ["--file", str(tmp_path / "note.txt"), "--file", "https://files.example/x.png"]
    done = parley("send", url, "parts", *options, "--data", "null", "--data", f"@{tmp_path / 'data.json'}")
    assert done.stdout == "TextPart, RawPart, UrlPart, DataPart, DataPart\n"
    assert parley("send", url, "names", *options).stdout == "note.txt, x.png\n"


def test_data_alone_is_enough(url: str) -> None:
    assert parley("send", url, "-d", '{"a": [1]}').stdout == '{\n  "a": [\n    1\n  ]\n}\n'


def test_a_dash_reads_the_text_from_standard_input(url: str) -> None:
    assert parley("send", url, "-", input="two\nlines\n").stdout == "two\nlines\n"


def test_files_of_the_agent_are_saved_and_never_over_others(url: str, tmp_path: Path) -> None:
    for _ in range(2):
        assert parley("send", url, "work", "--save", str(tmp_path / "new")).exit_code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {
        "data.csv": b"1,2",
        "data-2.csv": b"1,2",
    }


def test_a_file_that_cannot_be_saved_is_told_and_the_answer_goes_on(url: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = parley("send", url, "work", "--save", str(tmp_path / "taken"))
    assert "The file cannot be saved: File exists" in done.stderr
    assert done.exit_code == 0


def test_words_about_the_work_cannot_pass_for_words_of_the_command(url: str) -> None:
    done = parley("send", url, "lines")
    assert done.stderr.splitlines() == ["· one", "  Error: two", "Failed: three", "  four"]


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("fail", 1, "Failed: The vault is empty"),
        ("reject", 1, "Rejected: Not for you"),
        ("crash", 1, "Failed"),
    ],
)
def test_a_task_that_does_not_succeed_ends_with_one_and_its_reason(url: str, said: str, code: int, words: str) -> None:
    done = parley("send", url, said)
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr


def test_a_question_ends_with_four_and_is_answered_by_the_command_that_is_shown(url: str) -> None:
    asked = parley("send", url, "ask")
    assert (asked.exit_code, asked.stdout) == (4, "What?\n")
    assert asked.stderr.startswith(f"The task waits for input. Answer with: parley send {url} TEXT --task ")
    task = asked.stderr.split()[-1]
    answered = parley("send", url, "This", "--task", task)
    assert (answered.exit_code, answered.stdout) == (0, "You said: This\n")
    again = parley("send", url, "This", "--task", task)
    assert again.exit_code == 1
    assert "The task has ended" in again.stderr


def test_a_form_is_shown_with_its_fields_and_answered_by_the_command_that_is_shown(url: str) -> None:
    asked = parley("send", url, "form", "--no-stream")
    assert (asked.exit_code, asked.stdout) == (4, "What did you spend?\n")
    *fields, command = asked.stderr.splitlines()
    assert fields == [
        "The task waits for a form:",
        "  amount  a number, required, “Amount in EUR”",
        "  days    a whole number, optional",
        "  kind    train | plane, required, “How”",
        "  refund  yes or no, optional, “Refund”",
        "  tags    a JSON array, optional, “Tags”",
    ]
    assert command.startswith(f"""Answer with: parley send {url} --data '{{"amount":1,"kind":"train"}}' --task """)
    answered = parley(*shlex.split(command.partition("parley ")[2]))
    assert (answered.exit_code, answered.stdout.split()) == (0, ["{", '"amount":', "1,", '"kind":', '"train"', "}"])


def test_an_authorisation_ends_with_four_too(url: str) -> None:
    asked = parley("send", url, "auth")
    assert (asked.exit_code, asked.stdout) == (4, "Go to https://login.example\n")
    assert asked.stderr.startswith("The agent needs authentication.\n")


def test_work_that_is_not_waited_for_is_named(url: str) -> None:
    done = parley("send", url, "wait", "--no-wait")
    assert done.exit_code == 0
    assert f"See: parley tasks watch {url} " in done.stderr


def test_a_conversation_goes_on_by_its_context(url: str) -> None:
    (reply,) = lines(parley("send", url, "hi", "--context", "c-1", "--no-stream", "--json").stdout)
    assert reply["task"]["contextId"] == "c-1"


def test_terminal_escapes_are_harmless(url: str, tmp_path: Path) -> None:
    done = parley("send", url, "nasty", "--save", str(tmp_path))
    assert done.exit_code == 0
    for text in (done.stdout, done.stderr):
        assert not set(text) & set("\x1b\x07\x9b\x7f\r\u202e")
    assert done.stdout.startswith("␛]0;owned␇␛[2Jred\nnext�31m �gnp.exe␡\n")
    assert '"text": "\\u001b]0;owned\\u0007\\u001b[2Jred\\r\\nnext\\u009b31m \\u202egnp.exe\\u007f"' in done.stdout
    (saved,) = tmp_path.iterdir()
    assert saved.name.isprintable()


def test_json_is_harmless_in_a_terminal_too_and_says_the_same(url: str) -> None:
    done = parley("send", url, "nasty", "--json")
    assert not set(done.stdout) & set("\x1b\x07\x9b\x7f\u202e")
    status = lines(done.stdout)[2]["statusUpdate"]["status"]
    assert status["message"]["parts"][0]["text"].startswith("\x1b]0;owned\x07")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "There is nothing to send"),
        (("hi", "--file", "/nowhere/at.all"), "/nowhere/at.all cannot be read: No such file or directory"),
        (("hi", "--data", "{"), "Invalid JSON"),
        (("hi", "--data", "@/nowhere/at.all"), "/nowhere/at.all cannot be read"),
        (("hi", "--header", "X-Secret 123"), "Invalid header"),
        (("hi", "--binding", "soap"), "'soap' is not one of"),
        (("hi", "--trust", "?"), "Invalid origin: '?'"),
        (("hi", "--task", ""), "An id cannot be empty"),
        (("hi", "--context", " "), "An id cannot be empty"),
        (("hi", "--save", ".", "--json"), "Not with --json"),
        (("hi", "--file", "no\0name"), "cannot be read: embedded null byte"),
    ],
)
def test_what_is_asked_wrongly_ends_with_two_and_the_cure(url: str, arguments: tuple[str, ...], words: str) -> None:
    done = parley("send", url, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "123" not in done.stderr.split("Error", 1)[-1]


@pytest.mark.parametrize("option", ["--file", "--data"])
def test_a_file_without_an_end_is_not_read_to_it(
    url: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MAX_FILE", 1_000_000)
    (tmp_path / "as large as can be").write_bytes(b" " * 999_999 + b"1")
    prefix = "@" if option == "--data" else ""
    assert parley("send", url, "parts", option, f"{prefix}{tmp_path / 'as large as can be'}").exit_code == 0
    done = parley("send", url, "parts", option, f"{prefix}/dev/zero")
    assert done.exit_code == 2
    assert "/dev/zero has more than 1 MB. Put it where the agent can fetch it" in done.stderr


def test_standard_input_that_is_no_text_is_refused(url: str) -> None:
    done = parley("send", url, "-", input="café".encode("latin-1"))
    assert done.exit_code == 2
    assert "Standard input is not UTF-8 text. Send it with --file /dev/stdin." in done.stderr


def test_the_name_of_a_file_elsewhere_is_in_its_urls_path() -> None:
    part = inputs.read_file("https://files.example/a%20b.png?signature=x/y.exe")
    assert part == UrlPart("https://files.example/a%20b.png?signature=x/y.exe", "image/png", "a b.png")
    assert inputs.read_file("https://files.example/").filename is None


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    done = parley("send", "https://ada:s3cret@agents.example", "hi")
    assert done.exit_code == 2
    assert "Give credentials with --token or --header" in done.stderr
    assert "s3cret" not in done.output


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "not a url", "http://["])
def test_a_url_that_is_none_ends_with_two(url: str) -> None:
    done = parley("send", url, "hi")
    assert done.exit_code == 2
    assert "Invalid URL" in done.stderr


def test_an_agent_that_cannot_be_reached_ends_with_three() -> None:
    done = parley("send", "127.0.0.1:9", "hi")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: No connection to http://127.0.0.1:9: ")


def test_errors_are_json_for_programs() -> None:
    done = parley("send", "127.0.0.1:9", "hi", "--json")
    (line,) = lines(done.stderr)
    assert (done.exit_code, line["error"]["reason"]) == (3, "UNREACHABLE")


def test_ctrl_c_ends_with_130_and_says_that_the_task_goes_on(url: str) -> None:
    command = [sys.executable, "-m", "parley.cli.main", "send", url, "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sending:
        assert sending.stderr is not None
        assert sending.stderr.readline() == "· waiting\n"
        sending.send_signal(signal.SIGINT)
        out, error = sending.communicate(timeout=SECONDS)
    assert (sending.returncode, out) == (130, "begun, \n")
    assert error.startswith(f"The task goes on. See: parley tasks watch {url} ")


def test_who_loses_the_agent_is_told_how_to_look_for_the_task() -> None:
    with sampler_on_a_port() as url:
        command = [sys.executable, "-m", "parley.cli.main", "send", url, "wait", "--timeout", "3"]
        sending = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert sending.stderr is not None
        assert sending.stderr.readline() == "· waiting\n"
    with sending:
        out, error = sending.communicate(timeout=SECONDS)
    assert (sending.returncode, out) == (3, "begun, \n")
    told, why = error.splitlines()
    assert told.startswith(f"The task may go on. See: parley tasks watch {url} ")
    assert why.startswith("Error: The stream ended before its task did")


def test_the_exit_codes_are_in_every_commands_help() -> None:
    for command in (["send"], ["card"], ["chat"], ["tasks", "list"], ["push", "set"]):
        done = parley(*command, "--help")
        assert "130  interrupted by Ctrl+C" in done.stdout
        assert "parley " in done.stdout.split("Example", 1)[1]


def test_the_shell_completes_commands_and_values() -> None:
    def completed(words: str) -> list[str]:
        env = {"_PARLEY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return parley_completion(env)

    assert "send" in completed("parley se")
    assert {"HTTP+JSON"} <= {word.upper() for word in completed("parley send --binding ht")}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_completes_the_options_that_commands_share(shell: str) -> None:
    env = {"_PARLEY_COMPLETE": f"complete_{shell}", "COMP_WORDS": "parley tasks show --bin", "COMP_CWORD": "3"}
    more = {"_TYPER_COMPLETE_ARGS": "parley tasks show --bin", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert "--binding" in " ".join(parley_completion({**env, **more}))


def parley_completion(env: dict[str, str]) -> list[str]:
    from typer.testing import CliRunner

    return CliRunner().invoke(cli, [], prog_name="parley", env=env).stdout.split()
