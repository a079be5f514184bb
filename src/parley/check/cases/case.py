"""A case: a function that tests one rule. Each module of cases has a list of its own.

A case returns when the rule is kept, with a description of what it saw, and raises `Broken` or `Undecided` otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from parley.check.endpoints.probe import Probe
from parley.check.rules import CLAUSES
from parley.protocol.cards import Binding
from parley.protocol.versions import Version

Trial: TypeAlias = Callable[[Probe], Awaitable[str | None]]

EVERYWHERE: tuple[Binding, ...] = tuple(Binding)
HTTP: tuple[Binding, ...] = (Binding.JSONRPC, Binding.HTTP_JSON)


@dataclass(frozen=True, slots=True)
class Case:
    """A test, its name, the clause that it tests in each version, and the bindings that it applies to."""

    name: str
    clauses: dict[Version, str]
    """By version, the clause: the id of a rule, or one with the letter of a sentence."""
    bindings: Collection[Binding]
    trial: Trial

    @property
    def rules(self) -> dict[Version, str]:
        """By version, the rule that is tested."""
        return {version: CLAUSES[clause][0] for version, clause in self.clauses.items()}

    def clause_at(self, probe: Probe) -> str | None:
        """The clause that the case tests at this endpoint, if any."""
        return self.clauses.get(probe.version) if probe.binding in self.bindings else None


class Cases(list[Case]):
    """The cases of one module."""

    def case(
        self,
        name: str,
        *,
        v1_0: str | None = None,
        v0_3: str | None = None,
        v0_2: str | None = None,
        v0_1: str | None = None,
        bindings: Collection[Binding] = EVERYWHERE,
    ) -> Callable[[Trial], Trial]:
        """Add a function as a case. 0.2 has 0.3's rule unless it has its own."""
        by_version = {Version.V1_0: v1_0, Version.V0_3: v0_3, Version.V0_2: v0_2 or v0_3, Version.V0_1: v0_1}
        clauses = {version: clause for version, clause in by_version.items() if clause is not None}

        def add(trial: Trial) -> Trial:
            self.append(Case(name, clauses, bindings, trial))
            return trial

        return add
