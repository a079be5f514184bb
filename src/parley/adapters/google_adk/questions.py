"""The questions of google-adk: long-running calls that wait for the response of a user.

Confirmations, requests for input and requests for credentials are such calls, with names of ADK's own. Others are
long-running tools: what they return first may say what is asked, as `{"form": JSON Schema, "instructions": "…"}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.auth.auth_credential import AuthCredentialTypes
from google.adk.events.event import Event
from google.genai import types

from parley.adapters.adapter import APPROVAL, Question, Start, approval, call_text, is_approved
from parley.protocol.jsonvalue import JsonObject, JsonValue

CONFIRMATION, INPUT, CREDENTIAL = "adk_request_confirmation", "adk_request_input", "adk_request_credential"

STANDARD_HINT = "Please approve or reject the tool call"
"""How ADK's own text begins, which tells programmers about function responses."""

REDIRECTED: JsonObject = {
    "type": "object",
    "properties": {
        "authResponseUri": {"type": "string", "title": "The address that you were redirected to"},
        "redirectUri": {"type": "string", "title": "The redirect_uri that was sent along, if one was"},
    },
    "required": ["authResponseUri"],
}
API_KEY: JsonObject = {
    "type": "object",
    "properties": {"apiKey": {"type": "string", "title": "API key"}},
    "required": ["apiKey"],
}
OTHER_CREDENTIAL: JsonObject = {
    "type": "object",
    "properties": {"authType": {"type": "string", "enum": [kind.value for kind in AuthCredentialTypes]}},
    "required": ["authType"],
}


def open_calls(events: Sequence[Event]) -> dict[str, types.FunctionCall]:
    """The calls by their ids that wait for a user."""
    waiting: dict[str, types.FunctionCall] = {}
    for event in events:
        for call in event.get_function_calls():
            if call.id and call.id in (event.long_running_tool_ids or ()):
                waiting[call.id] = call
        if event.author == "user":
            for response in event.get_function_responses():
                waiting.pop(response.id or "", None)
    return waiting


def question_of(call: types.FunctionCall, events: Sequence[Event]) -> Question:
    """What a call asks."""
    args: dict[str, Any] = call.args or {}
    id = str(call.id)
    match call.name:
        case str(name) if name == CONFIRMATION:
            return _confirmation(id, args["originalFunctionCall"], args.get("toolConfirmation") or {})
        case str(name) if name == CREDENTIAL:
            return _credential(id, args["authConfig"])
        case str(name) if name == INPUT:
            return Question(id, args.get("message") or "Please answer.", _form(args.get("response_schema")))
        case _:
            responses = [one for event in events for one in event.get_function_responses() if one.id == id]
            result: dict[str, Any] = (responses[-1].response if responses else None) or {}
            text = result.get("instructions") or result.get("message")
            described = call_text(str(call.name), args)
            return Question(id, str(text or f"What is the result of {described}?"), _form(result.get("form")))


def answers_of(start: Start, events: Sequence[Event]) -> list[Event]:
    """The answers to the last questions as events of the user.

    There is one per branch, because agents side by side do not see each other's. Confirmations and credentials are set
    apart and come last: ADK looks for them in the last event, and shows models nothing that is in an event with them.
    """
    asked, askers = open_calls(events), {call.id: event for event in events for call in event.get_function_calls()}
    answered: dict[tuple[bool, str | None], list[types.Part]] = {}
    for id, answer in start.answers.items():
        group = asked[id].name in (CONFIRMATION, CREDENTIAL), askers[id].branch
        answered.setdefault(group, []).append(_response(asked[id], answer))
    return [
        Event(author="user", invocation_id=events[-1].invocation_id, branch=branch, content=types.UserContent(parts))
        for (_, branch), parts in sorted(answered.items(), key=lambda each: each[0][0])
    ]


def _response(call: types.FunctionCall, answer: JsonValue) -> types.Part:
    """The answer to a call as ADK expects it."""
    args: dict[str, Any] = call.args or {}
    fields: dict[str, Any] = answer if isinstance(answer, dict) else {"result": answer}
    if call.name == CONFIRMATION:
        payload = fields.get("payload", (args.get("toolConfirmation") or {}).get("payload"))
        fields = {"confirmed": is_approved(answer), **({} if payload is None else {"payload": payload})}
    elif call.name == CREDENTIAL and "authResponseUri" in fields:
        asked = args["authConfig"]["exchangedAuthCredential"]
        exchanged = {**asked, "oauth2": {**asked["oauth2"], **fields}}
        fields = {**args["authConfig"], "exchangedAuthCredential": exchanged}
    elif call.name == CREDENTIAL and "apiKey" in fields:
        fields = {"authType": "apiKey", "apiKey": fields["apiKey"]}
    return types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=fields))


def _confirmation(id: str, call: dict[str, Any], confirmation: dict[str, Any]) -> Question:
    asked = approval(id, call_text(call["name"], call.get("args")))
    hint, payload = confirmation.get("hint") or "", confirmation.get("payload")
    text = asked.text if not hint or hint.startswith(STANDARD_HINT) else f"{hint}\n{asked.text}"
    if payload is None:
        return Question(id, text, asked.form)
    properties: Any = APPROVAL["properties"]
    return Question(id, text, {**APPROVAL, "properties": {**properties, "payload": {"default": payload}}})


def _credential(id: str, config: dict[str, Any]) -> Question:
    oauth2 = (config.get("exchangedAuthCredential") or {}).get("oauth2") or {}
    if address := oauth2.get("authUri"):
        text = f"Please log in at {address} and send the address that you are redirected to."
        return Question(id, text, REDIRECTED, needs_auth=True)
    if config.get("authScheme", {}).get("type") == "apiKey":
        return Question(id, "Please send the API key.", API_KEY, needs_auth=True)
    text = "Please send the credential as data, in the form of an AuthCredential of google-adk."
    return Question(id, text, OTHER_CREDENTIAL, needs_auth=True)


def _form(schema: Any) -> JsonObject | None:
    """A schema as a form; one that is not of an object is that of its only field, `result`, where ADK looks for it."""
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object" or "properties" in schema:
        return schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
