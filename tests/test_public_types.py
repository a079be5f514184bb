"""No `Any` in what authors and callers touch: the names that the pages import, and the types in their signatures."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import parley
import parley.client
from parley.client.client import Client, ClientArguments

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]

Name = tuple[str, str]
"""A module and a name that it defines or imports."""


def documented() -> set[Name]:
    """Every name that a page or an example imports from Parley."""
    imports = re.compile(r"^\s*from (parley[\w.]*) import (.+)$", re.MULTILINE)
    found = {
        (module, name.strip())
        for page in PAGES
        for module, names in imports.findall(page.read_text())
        for name in names.split(",")
    }
    found |= {("parley", name) for name in parley.__all__}
    return found | {("parley.client", name) for name in dir(parley.client)}


@cache
def source(module: str) -> ast.Module:
    path = ROOT / "src" / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


@cache
def imported_in(module: str) -> dict[str, Name]:
    """The names that a module imports from Parley, and where from."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(source(module))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("parley")
        for alias in node.names
    }


def definition(module: str, name: str) -> ast.stmt | None:
    for node in ast.walk(source(module)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                return node
            case ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return node
            case _:
                pass
    return None


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    yield from (argument.annotation for argument in every if argument and argument.annotation)
    if function.returns is not None:
        yield function.returns


def is_public(function: ast.FunctionDef | ast.AsyncFunctionDef, overloaded: set[str]) -> bool:
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    is_hidden = function.name.startswith("_") and function.name not in ("__init__", "__call__", "__aenter__")
    is_hidden |= function.name == "throw" or [arg.arg for arg in function.args.args] == ["self", "value"]  # a coroutine
    return not is_hidden and (function.name not in overloaded or "overload" in decorators)


def annotations(node: ast.stmt) -> Iterator[ast.expr]:
    """The annotations of a definition that its users see."""
    match node:
        case ast.ClassDef():
            overloaded = {
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                and "overload" in {ast.unparse(decorator) for decorator in item.decorator_list}
            }
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and is_public(item, overloaded):
                    yield from signature(item)
                elif isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
                    yield item.annotation
            yield from node.bases
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from signature(node)
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case _:
            pass


def reached(start: set[Name]) -> dict[Name, set[str]]:
    """All names that the public signatures lead to, with the names in their own."""
    found: dict[Name, set[str]] = {}
    waiting = set(start)
    while waiting:
        module, name = waiting.pop()
        node = definition(module, name)
        if node is None and name in imported_in(module):
            waiting |= {imported_in(module)[name]} - found.keys()
        if node is None or (module, name) in found:
            continue
        # All coroutines have these: what passes between them and the event loop.
        written = " ".join(ast.unparse(annotation) for annotation in annotations(node)).replace("[Any, Any, ", "[")
        named = set(re.findall(r"\w+", written))
        found[module, name] = named
        waiting |= {imported_in(module).get(leaf, (module, leaf)) for leaf in named} - found.keys()
    return found


def test_no_public_signature_says_any() -> None:
    signatures = reached(documented())
    assert {("parley.agents.turn", "Turn"), ("parley.engine.runs.contexts", "Context")} <= signatures.keys()
    assert sorted(name for name, named in signatures.items() if "Any" in named) == []


def test_ask_takes_the_options_of_a_client() -> None:
    options = dict(Client.__init__.__annotations__)
    del options["target"], options["return"]
    assert {name: kind.__forward_arg__ for name, kind in ClientArguments.__annotations__.items()} == options
