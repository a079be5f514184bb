"""What stands in a check's way that its caller can clear: a secret, an origin to trust, a skill to name.

Such a cure is found by the error that left a case undecided, or by one that it came from. What depends on the agent, or
on nobody, has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.check.endpoints.endpoint import Place
from parley.check.endpoints.probe import Probe
from parley.check.findings import Unanswered
from parley.client.credentials.origins import origin_of
from parley.client.errors import ForbiddenTargetError
from parley.client.guard import Guard, read_target
from parley.protocol.errors import (
    A2AError,
    ParleyError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)

DENIALS = (UnauthenticatedError, PermissionDeniedError)
BUSY = (RateLimitedError, UnavailableError)
MAX_SKILLS, MAX_ID = 5, 40
"""Skills that a cure names, and the characters of each."""


def cure_of(error: ParleyError, probe: Probe) -> str:
    """What would have to be given to decide what this error left undecided; empty if nothing can be."""
    errors = list(_with_causes(error))
    if any(isinstance(one, DENIALS) for one in errors):
        return _cure_of_denial(probe)
    if not any(isinstance(one, Unanswered) for one in errors):
        return ""
    if any(isinstance(one, BUSY) for one in errors):
        return "the server is too busy; try again later"
    refusal = next((one for one in errors if isinstance(one, A2AError)), None)
    if refusal is None:
        return ""
    skills = [" ".join(skill.id.split())[:MAX_ID] for skill in probe.card.skills]  # foreign text, for one line
    if "skill" in str(refusal).lower() and (len(skills) > 1 or probe.place.skill):
        known = ", ".join(skills[:MAX_SKILLS]) + (", …" if len(skills) > MAX_SKILLS else "")
        return f"the agent wants a skill; give --skill ID ({known})"
    return "the agent refuses the message; give another with --message"


def cure_of_forbidden(error: ForbiddenTargetError, place: Place, given: str) -> str:
    """What would have to be given to visit a place that is forbidden; `given` is the URL that the caller named."""
    url = place.interface.url
    try:
        Guard(allow_private=True).check_interface(url, card_url=given)
    except ForbiddenTargetError:
        return ""  # it leads nowhere
    try:
        Guard().check_interface(url, card_url=given)
    except ForbiddenTargetError:
        return f"the check does not go to {read_target(url).origin}; give --allow-private"
    return error.message  # what is missing is not the caller's word


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _cure_of_denial(probe: Probe) -> str:
    if not probe.is_stranger:
        return "the credentials that were given are not taken; give others"
    url = probe.interface.url
    if not probe.authenticator.may_send_to(url):
        origin = origin_of(url) if "://" in url else url
        return f"the origin {origin} is not trusted with credentials; give --trust {origin}"
    return "credentials are missing; give --token or --header, or get them with parley login"
