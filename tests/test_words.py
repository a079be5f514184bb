"""The words of the code: no two classes share a name, and no sentence makes its reader stop. See CONTRIBUTING.md."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("docs", "docs/tutorial", "docs/howto")
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    *(page for name in FOLDERS for page in ROOT.glob(f"{name}/*.md")),
]
SOURCES = sorted([*ROOT.glob("src/parley/**/*.py"), *ROOT.glob("examples/*.py")])

PUZZLES = re.compile(
    r"\b(nobody|somebody|whoever|whosever|anybody|everybody|who asks|of whom|from whom|asked wrongly|is no URL"
    r"|in the air|comes round|first breath|now and then|so long took|doorkeeper|side door|manner)\b",
    re.IGNORECASE,
)


def test_no_two_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_sentence_is_a_puzzle() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*SOURCES, *PAGES]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PUZZLES.search(line)
    ]
    assert found == []
