"""Checks of a host as a whole: whether it answers, its token, its clock, its store, its models, its addresses."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from parley import __version__
from parley.cli.doctor.examined_host import ExaminedHost
from parley.cli.doctor.finding import HostFinding, fine, problem, warning
from parley.cli.output.transcript import size_of
from parley.network.addresses import is_loopback

CLOCK_SECONDS = 30
"""What tokens of issuers tolerate."""
LOW_DISK = 1_000_000_000
SLOW_LOOP = 0.1


async def check_answers(host: ExaminedHost) -> list[HostFinding]:
    """Whether the host answers and can take requests."""
    url = host.connection.url
    status, value = await host.read("/v1/health")
    if status == 0:
        advice = "Start it with parley up, or name another address with --host."
        return [problem("host", f"There is no answer at {url}.", advice)]
    if "ok" not in value:
        advice = "Name the host itself, without a path; a single agent is checked with parley check."
        return [problem("host", f"What answers at {url} is not a Parley host (HTTP {status}).", advice)]
    if not value["ok"]:
        reasons = "; ".join([str(reason.get("text") or reason) for reason in value.get("reasons", [])])
        return [problem("host", f"The host takes no requests: {reasons}", "The log of the host says more.")]
    return [fine("host", f"The host at {url} takes requests."), *_check_address(url)]


def _check_address(url: str) -> list[HostFinding]:
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        advice = "Serve it with TLS: put a proxy in front, or start it with a certificate."
        return [problem("address", "Tokens travel in the open: the address is plain http.", advice)]
    return []


async def check_token(host: ExaminedHost) -> tuple[list[HostFinding], dict[str, Any] | None]:
    """Whether the token is the admin's; with it come the facts that other checks look at."""
    status, facts = await host.read("/v1/admin/facts")
    match status:
        case 200:
            return [fine("token", "The admin token is accepted.")], facts
        case 503:
            advice = "Start it with an admin token: PARLEY_ADMIN_TOKEN, or --admin-token-file."
            return [problem("token", "The host has no admin token, so nothing more can be checked.", advice)], None
        case 404:
            advice = "Update the host, or use the doctor of its version."
            return [warning("token", "The host is of an older version, which tells no facts.", advice)], None
        case _:
            advice = "Put the admin token into PARLEY_ADMIN_TOKEN, or name its file with --token-file."
            what = "The token is not accepted as the admin's" if host.connection.token else "There is no token"
            return [problem("token", f"{what} (HTTP {status}).", advice)], None


def check_facts(facts: dict[str, Any], url: str) -> list[HostFinding]:
    """What is wrong with the process, its store and its models."""
    return [
        *_check_version(facts),
        *_check_clock(facts),
        *_check_store(facts["store"]),
        *_check_model(facts["default_model"]),
        *_check_load(facts),
        *_check_public_url(facts, url),
    ]


def _check_version(facts: dict[str, Any]) -> list[HostFinding]:
    if facts["version"] == __version__:
        extras = ", ".join(facts["extras"]) or "none"
        return [fine("version", f"Parley {__version__} on Python {facts['python']}; extras: {extras}.")]
    text = f"The host runs Parley {facts['version']}, and this is {__version__}."
    return [warning("version", text, "Use the same version for both, so that all commands fit.")]


def _check_clock(facts: dict[str, Any]) -> list[HostFinding]:
    difference = abs(facts["now"] - time.time())
    if difference < CLOCK_SECONDS:
        return []
    text = f"The clocks of the host and of this machine differ by {difference:.0f} seconds."
    return [warning("clock", text, "Set both by NTP: tokens expire and schedules run by the clock.")]


def _check_store(store: dict[str, Any]) -> list[HostFinding]:
    if store["kind"] == "memory":
        advice = "Start the host with --store sqlite:///parley.db."
        return [problem("store", "Everything is kept in memory and is lost when the host stops.", advice)]
    if store["free_bytes"] is not None and store["free_bytes"] < LOW_DISK:
        text = f"The disk of the store has {size_of(store['free_bytes'])} left."
        return [problem("store", text, "Free some space, or set --retention so that old tasks are deleted.")]
    size = "" if store["bytes"] is None else f", {size_of(store['bytes'])}"
    return [fine("store", f"{store['kind']}{size}.")]


def _check_model(model: dict[str, Any]) -> list[HostFinding]:
    if model["problem"]:
        return [problem("models", f"{model['name']}: {model['problem']}", "Set the key of the provider, or --model.")]
    if model["name"].startswith("parley/"):
        text = f"The default model is {model['name']}, which works offline by rules and understands little."
        return [warning("models", text, "Start the host with --model openai/…, anthropic/…, google/… or ollama/….")]
    return [fine("models", f"The default model is {model['name']}.")]


def _check_load(facts: dict[str, Any]) -> list[HostFinding]:
    if facts["loop_delay_seconds"] < SLOW_LOOP:
        memory = "" if facts["memory_bytes"] is None else f"; up to {size_of(facts['memory_bytes'])} of memory used"
        return [fine("load", f"{facts['runs']} runs at work{memory}.")]
    text = f"The host is {facts['loop_delay_seconds']:.2f} seconds behind, with {facts['runs']} runs at work."
    return [warning("load", text, "Lower --runs-at-once, or look for agents in Python that block the event loop.")]


def _check_public_url(facts: dict[str, Any], url: str) -> list[HostFinding]:
    public = facts["public_url"]
    if public is None and not is_loopback(urlsplit(url).hostname or ""):
        text = "Cards name the address by which each caller came, because the host knows no public URL."
        return [warning("address", text, "Start the host with --public-url.")]
    return []
