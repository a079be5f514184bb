"""Writes what is made from tables: the pages about operations, errors, states and limits, and the protobuf descriptors.

python scripts/generate.py           write them
python scripts/generate.py --check   fail if one of them is not what the tables say
"""

from __future__ import annotations

import sys
from pathlib import Path

import compile_protos
from parley.cli.options.limits import ENGINE_LIMITS, SERVER_LIMITS
from parley.cli.output.help_text import LIMITS, Section
from parley.protocol.errors import WIRE_ERRORS
from parley.protocol.lifecycle import INTERRUPTED, TERMINAL, TRANSITIONS
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by scripts/generate.py from `{source}`; change it there and run `make generate`. -->\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def code(text: str | None) -> str:
    return f"`{text}`" if text else "–"


def rest(operation: Operation, version: Version) -> str:
    route = operation.routes.get(version)
    return code(f"{' or '.join(route.verbs)} {route.path}") if route else "–"


def operations_page() -> str:
    methods = table(
        ["Operation", "In Python", *(f"JSON-RPC {version}" for version in Version)],
        [[op.name, code(op.verb), *(code(op.methods.get(version)) for version in Version)] for op in OPERATIONS],
    )
    routes = table(
        ["Operation", "REST 0.3", "REST 1.0", "gRPC 0.3", "gRPC 1.0", "Needs"],
        [
            [
                op.name,
                rest(op, Version.V0_3),
                rest(op, Version.V1_0),
                code(op.rpcs.get(Version.V0_3)),
                code(op.rpcs.get(Version.V1_0)),
                op.needs.replace("_", " "),
            ]
            for op in OPERATIONS
        ],
    )
    return f"""# Operations

{MADE.format(source="parley/protocol/operations.py")}
The operations of A2A, with their names in each release and binding. A dash means that a release lacks the operation.

{methods}
Paths are below the interface's URL; those of 1.0 also exist under `/{{tenant}}`. gRPC services are `a2a.v1.A2AService`
(0.3) and `lf.a2a.v1.A2AService` (1.0). "Needs" names the capability that the card must declare.

{routes}"""


def errors_page() -> str:
    rows = [
        [
            error.__name__,
            str(error.row.code),
            code(error.row.reason),
            str(error.row.http),
            error.row.grpc,
            str(error.row.http_0_3),
            error.row.grpc_0_3,
        ]
        for error in WIRE_ERRORS
    ]
    return f"""# Errors

{MADE.format(source="parley/protocol/errors.py")}
Every error that crosses the wire. 1.0 statuses are those of 1.0.1; readers understand those of 1.0.0, too. Numbers that
a release lacks or uses otherwise are listed in `parley/dialects/json_errors.py`.

{table(["Error", "JSON-RPC", "Reason", "HTTP 1.0", "gRPC 1.0", "HTTP 0.3", "gRPC 0.3"], rows)}"""


def lifecycle_page() -> str:
    names = {state: state.value.replace("-", "_") for state in TaskState}
    arrows = [
        f"    {names[before]} --> {names[after]}{' : 0.1 reopens' if before in TERMINAL else ''}\n"
        for before, afters in TRANSITIONS.items()
        for after in TaskState
        if before is not TaskState.UNKNOWN and after in afters
    ]
    return f"""# A task's life

{MADE.format(source="parley/protocol/lifecycle.py")}
Terminal: {", ".join(sorted(TERMINAL))}. Waiting for the caller: {", ".join(sorted(INTERRUPTED))}.

```mermaid
stateDiagram-v2
    [*] --> submitted
{"".join(arrows)}```
"""


def limits_of(section: Section) -> str:
    options = [option for option in (*SERVER_LIMITS, *ENGINE_LIMITS) if option.section is section]
    rows = [
        [
            code(f"--{option.name}"),
            option.default_text or "not set",
            f"{option.text[0].lower()}{option.text[1:].rstrip('.')}",
            code(f"{option.owner.__name__}.{option.field}"),
        ]
        for option in options
    ]
    return f"## {section}\n\n{table(['option', 'default', 'what it limits', 'in Python'], rows)}"


def limits_page() -> str:
    tables = [limits_of(section) for section in Section if section in LIMITS]
    return f"""# Limits

{MADE.format(source="parley/cli/options/limits.py")}
The limits of a server, as options of `parley serve` and `parley up`, with their names in Python, where a comment gives
the reason for each number. `parley serve --help-limits` shows them, too.
[Variables and parley.toml](serving.md#configuration) set them as well. `parley proxy` has the limits for callers,
streams and connections.

A time is written as `90s`, `10m` or `1h30m`, or as a number of seconds; a size as `512KiB` or `24MiB`, or as a number
of bytes. `off` removes a limit that may be None in Python.

{chr(10).join(tables)}"""


PAGES = {
    "operations.md": operations_page,
    "errors.md": errors_page,
    "lifecycle.md": lifecycle_page,
    "limits.md": limits_page,
}


def main(check: bool) -> int:
    stale = [name for name, page in PAGES.items() if not _is_current(DOCS / name, page())]
    if check:
        for name in stale:
            print(f"docs/{name} is not what the tables say: run `make generate`")
    else:
        for name in stale:
            (DOCS / name).write_text(PAGES[name]())
            print(f"wrote docs/{name}")
    compile_protos.main(check)
    return 1 if check and stale else 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
