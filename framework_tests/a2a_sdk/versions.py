"""The modules for the major version of a2a-sdk that is installed."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

_SUFFIX = "v0_3" if version("a2a-sdk").startswith("0.") else "v1"

idioms: Any = import_module(f"framework_tests.a2a_sdk.idioms_{_SUFFIX}")
hello: Any = import_module(f"framework_tests.a2a_sdk.hello_{_SUFFIX}")
