"""Hints: what the caller can do when a case is undecided, such as giving credentials or naming a skill.

The hint follows from the error that left the case undecided, or from its causes. There is none where only the agent
decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.check.endpoints.endpoint import Endpoint
from parley.check.endpoints.probe import Probe
from parley.check.findings import BUSY, DENIALS, Unanswered
from parley.client.credentials.origins import origin_of
from parley.client.errors import ForbiddenTargetError
from parley.client.guard import Guard, read_target
from parley.protocol.errors import A2AError, ParleyError

MAX_SKILLS, MAX_ID = 5, 40
"""Skills that a hint lists, and characters of each."""


def hint_for(error: ParleyError, probe: Probe) -> str:
    """What the caller can do so that the case is decided; empty if nothing."""
    errors = list(_with_causes(error))
    if any(isinstance(one, DENIALS) for one in errors):
        return _hint_for_denial(probe)
    if not any(isinstance(one, Unanswered) for one in errors):
        return ""
    if any(isinstance(one, BUSY) for one in errors):
        return "the server is too busy; try again later"
    refusal = next((one for one in errors if isinstance(one, A2AError)), None)
    if refusal is None:
        return ""
    skills = [" ".join(skill.id.split())[:MAX_ID] for skill in probe.card.skills]  # the agent's text, on one line
    if "skill" in str(refusal).lower() and (len(skills) > 1 or probe.endpoint.skill):
        known = ", ".join(skills[:MAX_SKILLS]) + (", …" if len(skills) > MAX_SKILLS else "")
        return f"the agent needs a skill; give --skill ID ({known})"
    return "the agent refuses the message; give another with --message"


def hint_for_forbidden(error: ForbiddenTargetError, endpoint: Endpoint, given: str) -> str:
    """What the caller can do to have a forbidden endpoint checked; `given` is the URL that the caller named."""
    url = endpoint.interface.url
    try:
        Guard(allow_private=True).check_interface(url, card_url=given)
    except ForbiddenTargetError:
        return ""  # no option allows it
    try:
        Guard().check_interface(url, card_url=given)
    except ForbiddenTargetError:
        return f"the check does not call {read_target(url).origin}; give --allow-private"
    return error.message  # something else is missing, such as gRPC


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _hint_for_denial(probe: Probe) -> str:
    if not probe.is_anonymous:
        return "the server does not accept these credentials; give others"
    url = probe.interface.url
    if not probe.authenticator.may_send_to(url):
        origin = origin_of(url) if "://" in url else url
        return f"the origin {origin} is not trusted with credentials; give --trust {origin}"
    return "credentials are missing; give --token or --header, or get them with parley login"
