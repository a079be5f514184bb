"""Asks a source of security advisories about locked packages: the API of OSV, or one that speaks as it does.

No package is sent anywhere but its name and version. A source that cannot be reached is an error of its own kind, so
that a release can say that nothing was checked.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OSV = "https://api.osv.dev"
AT_ONCE = 500
"""Packages in one request. OSV takes up to 1,000."""
SECONDS = 20.0


class AdvisoriesUnreachableError(Exception):
    """The source of advisories cannot be reached, or does not answer as OSV does."""


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory that applies to a locked package."""

    package: str
    version: str
    id: str


def find_advisories(packages: Mapping[str, str], source: str = OSV) -> Sequence[Advisory]:
    """The advisories that apply to packages of PyPI, given as names and versions.

    Raises:
        AdvisoriesUnreachableError: nothing was checked.
    """
    listed = sorted(packages.items())
    found: list[Advisory] = []
    for begin in range(0, len(listed), AT_ONCE):
        part = listed[begin : begin + AT_ONCE]
        results = _ask(source, part)
        for (name, version), result in zip(part, results, strict=True):
            found += [Advisory(name, version, str(each["id"])) for each in result.get("vulns", ())]
    return found


def _ask(source: str, packages: Sequence[tuple[str, str]]) -> Sequence[Mapping[str, Any]]:
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages]
    request = urllib.request.Request(
        f"{source}/v1/querybatch",
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            results = json.loads(response.read())["results"]
    except urllib.error.HTTPError as error:
        raise AdvisoriesUnreachableError(f"{source} answers {error.code}.") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise AdvisoriesUnreachableError(f"{source} cannot be reached: {reason}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise AdvisoriesUnreachableError(f"{source} does not answer as OSV does.") from error
    if not isinstance(results, list) or len(results) != len(packages):
        raise AdvisoriesUnreachableError(f"{source} does not answer as OSV does.")
    return results
