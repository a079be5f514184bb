"""`parley new`: makes the project of an agent that runs at once, without a network. It writes over no file."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from parley.cli.output.exit_codes import error_text, fail

EXIT_CODES = """\b
Exit codes:
  0    success
  2    invalid arguments, or the directory cannot be used
"""


class FrameworkChoice(StrEnum):
    """The frameworks that an agent may be made with."""

    LANGGRAPH = "langgraph"
    PYDANTIC_AI = "pydantic-ai"
    OPENAI_AGENTS = "openai-agents"
    CREWAI = "crewai"
    GOOGLE_ADK = "google-adk"
    AGENT_FRAMEWORK = "agent-framework"
    A2A_SDK = "a2a-sdk"


class TemplateFramework(NamedTuple):
    """What a template with a framework needs."""

    name: str
    packages: tuple[str, ...]
    variables: str = ""
    """Variables of the container."""
    is_wrapped: bool = False
    """Whether `agent.py` makes the framework's object an agent of Parley itself."""


FRAMEWORKS = {
    FrameworkChoice.LANGGRAPH: TemplateFramework("LangGraph", ("langchain>=1", "langgraph>=1.2"), is_wrapped=True),
    FrameworkChoice.PYDANTIC_AI: TemplateFramework("pydantic-ai", ("pydantic-ai-slim>=2",)),
    FrameworkChoice.OPENAI_AGENTS: TemplateFramework("the OpenAI Agents SDK", ("openai-agents>=0.24",)),
    FrameworkChoice.CREWAI: TemplateFramework("CrewAI", ("crewai>=1.15",), " HOME=/data"),  # it keeps files there
    FrameworkChoice.GOOGLE_ADK: TemplateFramework("google-adk", ("google-adk>=2.13",)),
    FrameworkChoice.AGENT_FRAMEWORK: TemplateFramework("Microsoft Agent Framework", ("agent-framework-core>=1.23",)),
    FrameworkChoice.A2A_SDK: TemplateFramework("a2a-sdk", ("a2a-sdk>=1.3,<2",), is_wrapped=True),
}

NAMES = {"dockerignore": ".dockerignore", "gitignore": ".gitignore"}
"""Files that begin with a dot, under the names of their templates."""


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The directory to create; its last part names the agent.")
    ],
    framework: Annotated[
        FrameworkChoice | None,
        typer.Option(
            "--with",
            metavar="FRAMEWORK",
            help=f"Make the agent with {', '.join(list(FrameworkChoice)[:-1])} or {list(FrameworkChoice)[-1]}.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Create a project: an agent, its test, and all it takes to run it.

    The agent runs at once, without a network: a scripted model stands for a real one. The directory must not exist, or
    be empty.

    \b
    Example:
      parley new weather
      parley new weather --with langgraph
    """
    directory = Path(name)
    project = directory.resolve().name
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?", project):
        raise typer.BadParameter(
            f"Invalid name: {project!r}. Use letters, digits, - and _, with a letter at the beginning.",
            param_hint="NAME",
        )
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            fail(f"{name} exists already, and is not an empty directory. Nothing was written.", code=2)
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in project_files(project, framework).items():
            with (directory / file).open("x", encoding="utf-8") as output:
                output.write(text)
    except OSError as error:
        fail(error_text(error), code=2)
    _say_what_is_next(name, framework)


def project_files(project: str, framework: FrameworkChoice | None) -> dict[str, str]:
    """The contents of the files of a project, by their names."""
    made_with = FRAMEWORKS[framework] if framework is not None else None
    packages = ["parley-a2a", *(made_with.packages if made_with else ())]
    is_wrapped = made_with is None or made_with.is_wrapped
    values = {
        "name": project.lower(),
        "title": re.sub(r"[-_]+", " ", project).strip().capitalize(),
        "identifier": project.lower().replace("-", "_"),
        "dependencies": ", ".join(f'"{package}"' for package in packages),
        "made_with": f", made with {made_with.name}" if made_with else "",
        "and_framework": f" and {made_with.name}" if made_with else "",
        "variables": made_with.variables if made_with else "",
        "import_agent": "" if is_wrapped else "from parley import Agent\n",
        "served": "agent" if is_wrapped else "Agent.of(agent)",
    }
    templates = files("parley.cli") / "templates"
    found: dict[str, str] = {}
    for kind in ("common", framework or "plain"):
        for template in (templates / kind).iterdir():
            file = template.name.removesuffix(".txt")
            text = template.read_text(encoding="utf-8")
            found[NAMES.get(file, file)] = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], text)
    return found


def _say_what_is_next(name: str, framework: FrameworkChoice | None) -> None:
    packages = f" {' '.join(repr(package) for package in FRAMEWORKS[framework].packages)}" if framework else ""
    install = f"pip install pytest{packages}".replace("'", '"')
    typer.echo(
        f"""Created {name}. Next:

  cd {name}
  {install}
  pytest
  parley serve agent.py

and in another terminal:

  parley send localhost:8080 Rome"""
    )
