"""Expenses with google-adk: the agent asks with a form, and reimburses when it is filled in.

    pip install . google-adk
    parley serve examples/frameworks/adk_expenses.py

It runs on Gemini if GOOGLE_API_KEY or GEMINI_API_KEY is set, and else on a model with a script. Nothing here knows of
A2A: the form is what a long-running tool of ADK returns first, and the filled-in form is its final result.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

LIMIT = 500


def request_form(tool_context: ToolContext, date: str = "", amount: str = "", purpose: str = "") -> dict[str, Any]:
    """Lets the user fill in a form with the date, the amount and the purpose of an expense.

    Args:
        date: The date of the expense, such as 2026-05-01, if the user has said it.
        amount: The amount in EUR, if the user has said it.
        purpose: What the money was spent on, if the user has said it.
    """
    tool_context.actions.skip_summarization = True  # the form says it all: the model waits for the answer
    known = {"date": date, "amount": float(amount) if amount else None, "purpose": purpose}
    fields = {
        "date": {"type": "string", "format": "date", "title": "Date of the expense"},
        "amount": {"type": "number", "exclusiveMinimum": 0, "title": "Amount in EUR"},
        "purpose": {"type": "string", "minLength": 1, "title": "What for"},
    }
    properties = {
        name: {**field, **({"default": known[name]} if known[name] else {})} for name, field in fields.items()
    }
    form = {"type": "object", "title": "Expense", "properties": properties, "required": list(fields)}
    return {"form": form, "instructions": "Please fill in the form."}


def reimburse(date: str, amount: float, purpose: str) -> dict[str, Any]:
    """Pays an expense back. Only for what the user has confirmed with the form."""
    if amount > LIMIT:
        return {"status": "rejected", "reason": f"{amount:g} EUR is over the limit of {LIMIT} EUR."}
    return {"status": "approved", "request_id": f"{date}-{round(amount * 100)}"}


class ScriptedClerk(BaseLlm):
    """A model for trying it out: form first, then reimbursement, then the outcome in words."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [types.Part(text="")])[-1]
        if (response := last.function_response) is None:
            amount = re.search(r"\d+(\.\d+)?", last.text or "")
            arguments = {
                "amount": amount[0] if amount else "",
                "purpose": "lunch" if "lunch" in (last.text or "") else "",
            }
            yield _says(types.Part.from_function_call(name="request_form", args=arguments))
        elif response.name == "request_form":
            yield _says(types.Part.from_function_call(name="reimburse", args=response.response or {}))
        else:
            result = response.response or {}
            text = result.get("reason") or f"Your request {result['request_id']} is {result['status']}."
            for word in re.findall(r"\S+\s*", text) if stream else ():
                yield LlmResponse(content=types.ModelContent(word), partial=True)
            yield _says(types.Part(text=text))


def _says(part: types.Part) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=20, candidates_token_count=10)
    return LlmResponse(content=types.ModelContent([part]), usage_metadata=usage)


has_key = bool(os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY"))

agent = LlmAgent(
    name="expenses",
    description="Reimburses expenses of up to 500 EUR.",
    model="gemini-2.5-flash" if has_key else ScriptedClerk(model="scripted"),
    instruction=(
        "You reimburse expenses. Call request_form with what the user has told you; invent nothing. When the form "
        "comes back, call reimburse with its fields exactly as they are, and tell the user the request id and status."
    ),
    tools=[LongRunningFunctionTool(request_form), reimburse],
)
