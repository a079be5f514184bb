"""Options that are declared once for several commands are in each of them what single ones would be."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from parley.cli.options.groups import OptionGroup, with_option_groups


def door(
    house: Annotated[str, typer.Argument(metavar="HOUSE")],
    key: Annotated[list[str] | None, typer.Option("--key", "-k", envvar="DOOR_KEY", help="What opens it.")] = None,
    width: Annotated[float, typer.Option(min=0.5)] = 1.0,
) -> str:
    if house == "none":
        raise typer.BadParameter("There is no such house.", param_hint="HOUSE")
    return f"{house} {','.join(key or [])} {width}"


Door = Annotated[str, OptionGroup(door)]


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    @app.command("open")
    @with_option_groups
    def open_door(
        through: Door,
        person: Annotated[str, typer.Argument(metavar="PERSON")],
        loudly: Annotated[bool, typer.Option("--loudly", help="So that all hear it.")] = False,
    ) -> None:
        """Open a door."""
        typer.echo(f"{person} opens {through}{'!' if loudly else '.'}")

    return app


def test_a_command_gets_the_value_that_its_options_make(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["home", "Ada", "-k", "one", "--key", "two", "--width", "2", "--loudly"])
    assert (done.exit_code, done.stdout) == (0, "Ada opens home one,two 2.0!\n")


def test_defaults_and_variables_count_as_with_single_options(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["home", "Ada"], env={"DOOR_KEY": "mine"})
    assert done.stdout == "Ada opens home mine 1.0.\n"


def test_the_help_has_arguments_then_own_options_then_shared_ones(app: typer.Typer) -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    words = ["Open a door.", "HOUSE", "PERSON", "So that all hear it.", "-k, --key", "What opens it.", "--width"]
    places = [shown.rindex(word) for word in words]
    assert places == sorted(places)
    assert "through" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none", "Ada"], "Invalid value for HOUSE: There is no such house."),
        (["home"], "Missing argument 'PERSON'"),
        (["home", "Ada", "--width", "0.1"], "Invalid value for '--width'"),
    ],
)
def test_what_is_typed_wrongly_is_told_with_the_options_name(app: typer.Typer, words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
