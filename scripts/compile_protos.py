"""Compile the .proto files of both A2A packages into the one descriptor set that `protobuf_pool` loads."""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).parents[1] / "src" / "parley" / "dialects" / "protos"
DESCRIPTORS = PROTOS / "descriptors.binpb"


def compile_descriptors() -> bytes:
    """The descriptor set of all our protos and what they import, without comments and source positions."""
    sources = sorted(path.name for path in PROTOS.glob("*.proto"))
    with as_file(files("grpc_tools") / "_proto") as well_known, tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / DESCRIPTORS.name
        arguments = [f"-I{PROTOS}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={output}"]
        if protoc.main(["protoc", *arguments, *sources]) != 0:
            raise SystemExit("protoc refused the .proto files")
        return output.read_bytes()


def main(check: bool) -> None:
    """Write the descriptor set, or with `check` fail if what is there differs."""
    compiled = compile_descriptors()
    if not check:
        DESCRIPTORS.write_bytes(compiled)
    elif DESCRIPTORS.read_bytes() != compiled:
        raise SystemExit(f"{DESCRIPTORS} is out of date: run make generate")


if __name__ == "__main__":
    main(check="--check" in sys.argv[1:])
