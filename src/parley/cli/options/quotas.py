"""The quotas of tenants as options of `parley up`: what a tenant may use that has no quota of its own."""

from __future__ import annotations

from typing import Annotated

from parley.cli.options.groups import OptionGroup
from parley.cli.options.limits import COUNT, SIZE, LimitOption, LimitValues, Quantity, limit_options
from parley.cli.output.help_text import Section
from parley.host.data.tenant import Quotas


def _quota(name: str, quantity: Quantity, text: str) -> LimitOption:
    field = name.replace("-", "_")
    return LimitOption(name, Quotas, field, quantity, text, Section.TENANTS, may_be_zero=True)


QUOTAS = (
    _quota("requests-per-minute", COUNT, "Requests per minute of each tenant."),
    _quota("concurrent-requests", COUNT, "Requests of each tenant at the same time."),
    _quota("tokens-per-day", COUNT, "Tokens that models may use per day for each tenant."),
    _quota("storage-bytes", SIZE, "What each tenant may store in files and memories."),
)
"""Without one, there is no limit. A tenant's own quota wins; the admin API sets it."""

WithQuotas = Annotated[LimitValues, OptionGroup(limit_options(*QUOTAS))]
