"""Loads the agents of `parley serve` and `parley up`: `module:agent` or `path/to/file.py:agent`.

The name after the colon is optional if it is `agent`. Modules are searched for in the current directory first, as with
`python -m`; a file can import modules in its directory, as with `python file.py`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import parley
from parley import Agent
from parley.adapters.recognition import FRAMEWORKS, framework_of
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

DEFAULT_NAME = "agent"
PACKAGE = Path(parley.__file__).parent


class TargetError(ParleyError):
    """The agent cannot be loaded."""


def load_agent(target: str) -> Agent:
    """Import the module of a target and return its agent.

    Raises:
        TargetError: there is no such module or name, the module fails, or it is not an agent. The message says which.
    """
    source, colon, name = target.rpartition(":")
    if not colon or name.endswith(".py"):  # the second is a drive letter of Windows
        source, name = target, DEFAULT_NAME
    if not source or not name:
        raise TargetError(f"Invalid target: {target!r}. Write module:agent or path/to/file.py:agent.")
    _search_first(Path.cwd())
    module = _load_file(Path(source)) if source.endswith(".py") else _load_module(source)
    return _agent_in(module, source, name)


def warn_of_missing_description(agent: Agent) -> None:
    """Log that an agent has no description, by which callers and orchestrators choose one."""
    if not agent.description:
        logger.warning(
            'The card of %r has no description, by which callers choose an agent. Set one: Agent("…", '
            'description="…"), or Agent.of(…, description="…") for an agent of a framework.',
            agent.name,
        )


def source_of(target: str) -> Path:
    """The directory with the files of a target."""
    source = target.rpartition(":")[0] or target
    return Path(source).resolve().parent if source.endswith(".py") else Path.cwd()


def _search_first(directory: Path) -> None:
    text = str(directory)
    if text in sys.path:
        sys.path.remove(text)
    sys.path.insert(0, text)


def _load_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise TargetError(f"There is no file {file}. Is this the right directory? It is {Path.cwd()}.")
    file = file.resolve()
    _search_first(file.parent)
    # Its own name, so that other files import the same module, unless that would hide another module.
    # That one's is made of its path: what a framework has recorded may name classes in it, and is read after a restart.
    other = f"parley_target_{hashlib.blake2b(str(file).encode(), digest_size=8).hexdigest()}"
    name = file.stem if file.stem not in sys.modules else other
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise TargetError(_failure(str(file), error, file=str(file))) from error
    return module


def _load_module(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):  # something that it imports
            raise TargetError(_failure(name, error)) from error
        if Path(name).is_dir():
            raise TargetError(_directory_hint(Path(name))) from error
        hint = _spelling_hint(name)
        raise TargetError(
            f"There is no module {name} in {Path.cwd()} or among the installed packages.{hint}"
        ) from error
    except (Exception, SystemExit) as error:
        raise TargetError(_failure(name, error)) from error
    if module.__file__ is None and Path(name).is_dir():  # Python accepts any directory as a package
        raise TargetError(_directory_hint(Path(name)))
    return module


def _spelling_hint(name: str) -> str:
    if Path(f"{name}.py").is_file():
        return f" Did you mean {name}.py:{DEFAULT_NAME}?"
    module, _, attribute = name.rpartition(".")
    if hasattr(sys.modules.get(module), attribute):  # Python has imported the part before the dot
        return f" Did you mean {module}:{attribute}?"
    return ""


def _directory_hint(directory: Path) -> str:
    files = sorted(file for file in directory.glob("*.py") if not file.name.startswith("_"))
    return f"{directory} is a directory. Name a file in it, such as {files[0] if files else directory / 'agent.py'}."


def _failure(what: str, error: BaseException, *, file: str | None = None) -> str:
    """Why a module cannot be imported, with the last line of the author's code; `file` is in `what` already."""
    reason = traceback.format_exception_only(error)[-1].strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    last = error if isinstance(error, SyntaxError) else frames[-1] if frames else None
    if last is None:
        return f"{what} cannot be imported. {reason}"
    where = "" if last.filename == file else f"{last.filename}, "
    return f"{what} cannot be imported. {reason} ({where}line {last.lineno})"


def _is_ours(filename: str) -> bool:
    if filename.startswith("<frozen importlib"):
        return True
    path = Path(filename)
    return "importlib" in path.parts or path.is_relative_to(PACKAGE)


def _agent_in(module: ModuleType, source: str, name: str) -> Agent:
    found: Any = module
    for attribute in name.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            known = [key for key, value in vars(module).items() if isinstance(value, Agent) or framework_of(value)]
            hint = (
                f" Did you mean {' or '.join(f'{source}:{key}' for key in known)}?" if known else " It has no agents."
            )
            raise TargetError(f"{source} has nothing called {name}.{hint}") from error
    if isinstance(found, Agent):
        return found
    if framework_of(found) is None:
        raise TargetError(
            f"{source}:{name} is not an Agent but a {type(found).__name__}. It may also be an agent of "
            f"{', '.join(framework.name for framework in FRAMEWORKS)}."
        )
    try:
        return Agent.of(found, default_name=name.rpartition(".")[2].replace("_", " ").capitalize())
    except Exception as error:
        reason = traceback.format_exception_only(error)[-1].strip()
        raise TargetError(f"{source}:{name} cannot be served. {reason}") from error
