"""Several files at once: each is an artifact of its own, and all grow side by side while the caller watches.

Say the name of a class and its fields: "Point x y".
"""

import asyncio

from parley import Agent

agent = Agent("Coder", description="Writes a dataclass, with a test.")


@agent.skill(tags=["python"], examples=["Point x y"])
async def write_class(turn):
    """Writes a Python dataclass and a test for it."""
    name, *fields = turn.text.split() or ["Thing"]
    files = {f"{name.lower()}.py": module(name, fields), f"test_{name.lower()}.py": test(name, fields)}
    async with asyncio.TaskGroup() as group:
        for filename, code in files.items():
            group.create_task(type_out(turn.artifact(filename), code))


async def type_out(file, code):
    *lines, end = code.splitlines(keepends=True)
    for line in lines:
        await file.write(line)
        await asyncio.sleep(0)  # a model would think here, and the other file go on
    await file.write(end, last=True)


def module(name, fields):
    lines = [f"    {field}: float\n" for field in fields] or ["    pass\n"]
    return f"from dataclasses import dataclass\n\n\n@dataclass\nclass {name}:\n{''.join(lines)}"


def test(name, fields):
    values = ", ".join(str(number) for number, _ in enumerate(fields))
    made = f"{name}({values})"
    return f"from {name.lower()} import {name}\n\n\ndef test_equal():\n    assert {made} == {made}\n"
