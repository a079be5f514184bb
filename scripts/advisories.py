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


def find_advisories(packages: Mapping[str, str], source: str = OSV, *, ecosystem: str = "PyPI") -> Sequence[Advisory]:
    """The advisories that apply to packages of PyPI, or of another ecosystem, given as names and versions.

    Raises:
        AdvisoriesUnreachableError: not all of them were checked.
    """
    waiting = [_query(name, version, ecosystem) for name, version in sorted(packages.items())]
    found: list[Advisory] = []
    while waiting:
        part, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        for query, result in zip(part, _ask(source, part), strict=True):
            name, version = query["package"]["name"], query["version"]
            found += [Advisory(name, version, str(each["id"])) for each in result.get("vulns", ())]
            if token := result.get("next_page_token"):  # also of a page that has none itself
                if token == query.get("page_token"):
                    raise AdvisoriesUnreachableError(f"{source} repeats a page.")
                waiting.append({**query, "page_token": token})
    return found


def _query(name: str, version: str, ecosystem: str) -> dict[str, Any]:
    return {"package": {"name": name, "ecosystem": ecosystem}, "version": version}


def _ask(source: str, queries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
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
    if not isinstance(results, list) or len(results) != len(queries):
        raise AdvisoriesUnreachableError(f"{source} does not answer as OSV does.")
    return results
