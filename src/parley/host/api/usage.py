"""Usage: the tokens and the cost of model calls, by day, agent, caller, model or conversation, as JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec import Struct, structs

from parley.host.access.scopes import Scope
from parley.host.api.query_parameters import DateParameter, LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth
from parley.host.data.usage_days import UsageSums
from parley.host.data.usage_reports import DIMENSIONS, MOST_ROWS, Dimension, ReportRow
from parley.host.errors import BadRequest
from parley.protocol.jsonvalue import JsonObject

CSV = "text/csv"
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or strips before one."""

_DEFAULT_DAYS = timedelta(days=30)

TENANT_DIMENSIONS: tuple[Dimension, ...] = tuple([one for one in DIMENSIONS if one != "tenant"])


@dataclass(frozen=True, slots=True)
class GroupByParameter:
    """The dimensions of a report."""

    dimensions: tuple[Dimension, ...]
    default: tuple[Dimension, ...]
    name: str = "group_by"

    @property
    def description(self) -> str:
        """See `QueryParameter`."""
        return f"One or more of {', '.join(self.dimensions)}, with commas; {','.join(self.default)} if it is not given."

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "string", "default": ",".join(self.default)}

    def read(self, values: Sequence[str]) -> tuple[Dimension, ...]:
        """The dimensions. Raises BadRequest if one is not known, or is given twice."""
        if not values:
            return self.default
        names = [name.strip() for name in ",".join(values).split(",", len(self.dimensions))]
        known: dict[str, Dimension] = {one: one for one in self.dimensions}
        if len(set(names)) < len(names) or not known.keys() >= set(names):
            raise BadRequest(f"group_by: must be different ones of {', '.join(self.dimensions)}, with commas")
        return tuple([known[name] for name in names])


@dataclass(frozen=True, slots=True)
class FormatParameter:
    """JSON or CSV."""

    name: str = "format"
    description: str = "`json` or `csv`; otherwise, the header `Accept: text/csv` means CSV."

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "string", "enum": ["json", "csv"]}

    def read(self, values: Sequence[str]) -> str:
        """The format; empty if it is not given. Raises BadRequest if it is another one."""
        if len(values) > 1 or (values and values[0] not in ("json", "csv")):
            raise BadRequest("format: must be json or csv")
        return values[0] if values else ""


FROM = DateParameter("from", "The first day; 30 days before the last one if it is not given.")
TO = DateParameter("to", "The last day; today if it is not given. Days are in UTC.")
GROUP_BY = GroupByParameter(TENANT_DIMENSIONS, ("day", "agent", "caller", "model"))
ADMIN_GROUP_BY = GroupByParameter(DIMENSIONS, ("tenant", "day"))
FORMAT = FormatParameter()
LIMIT = LimitParameter(default=1_000, most=MOST_ROWS)
OFFSET = NumberParameter("offset", "How many rows to leave out at the beginning: the `next_offset` of a page.")
QUERY = (FROM, TO, GROUP_BY, FORMAT, LIMIT, OFFSET)
ADMIN_QUERY = (FROM, TO, ADMIN_GROUP_BY, FORMAT, LIMIT, OFFSET)


class UsageRowView(UsageSums, frozen=True, kw_only=True, omit_defaults=False):
    """The sums of one group. It has the members that were grouped by, and null for the others."""

    tenant: str | None = None
    day: str | None = None
    agent: str | None = None
    caller: str | None = None
    """The principal that began the request; empty for calls of older hosts."""
    model: str | None = None
    conversation: str | None = None
    """Empty for calls outside of conversations."""


class UsageReportView(Struct, frozen=True, kw_only=True, rename={"day_from": "from", "day_to": "to"}):
    """What was used from one day to another, both included, in UTC. Costs are decimal texts."""

    day_from: date
    day_to: date
    group_by: Sequence[str]
    currency: str
    rows: Sequence[UsageRowView]
    next_offset: int | None
    """Where the next page begins; null: this is the last one."""


async def report_usage(call: ApiCall[None]) -> Answer:
    """What the tenant has used."""
    return await _report(call, [call.tenant.id], call.query(GROUP_BY))


async def report_all_usage(call: ApiCall[None]) -> Answer:
    """What all tenants have used."""
    return await _report(call, [tenant.id for tenant in call.host.tenants.list()], call.query(ADMIN_GROUP_BY))


async def _report(call: ApiCall[Any], tenants: Sequence[str], group_by: tuple[Dimension, ...]) -> Answer:
    last = call.query(TO) or datetime.now(UTC).date()
    first = call.query(FROM) or last - _DEFAULT_DAYS
    if first > last:
        raise BadRequest("from: must not be after to")
    is_csv = _is_csv(call)
    limit, offset = call.query(LIMIT), call.query(OFFSET) or 0
    rows = await call.host.usage_reports.report(tenants, first, last, group_by=group_by)
    page = rows[offset : offset + limit]
    following = offset + limit if offset + limit < len(rows) else None
    if is_csv:
        headers = ((b"parley-next-offset", b"%d" % following),) if following is not None else ()
        return Answer(as_csv(group_by, page), content_type=f"{CSV}; charset=utf-8; header=present", headers=headers)
    return Answer(
        UsageReportView(
            day_from=first,
            day_to=last,
            group_by=group_by,
            currency=call.host.models.currency,
            rows=[UsageRowView(**row.group, **structs.asdict(row.sums)) for row in page],
            next_offset=following,
        )
    )


def _is_csv(call: ApiCall[Any]) -> bool:
    chosen = call.query(FORMAT)
    return chosen == "csv" if chosen else CSV in call.request.headers.get("accept", "").lower()


def as_csv(group_by: Sequence[Dimension], rows: Sequence[ReportRow]) -> bytes:
    """A report as CSV with a line of names. No cell is a formula for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*group_by, *[field.name for field in structs.fields(UsageSums)]])
    for row in rows:
        sums = [format(value, "f") if isinstance(value, Decimal) else value for value in structs.astuple(row.sums)]
        writer.writerow([*[_cell(row.group[dimension]) for dimension in group_by], *sums])
    return text.getvalue().encode()


def _cell(value: str) -> str:
    return f"'{value}" if value.startswith(_DANGEROUS) else value


_REPLIES = (
    ApiReply(UsageReportView),
    ApiReply(None, description="The same rows as CSV.", content_type=CSV),
)

ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/usage",
        handler=report_usage,
        scope=Scope.READ,
        summary="Read what the tenant has used",
        description="By conversation, a report is about 31 days at most; otherwise about 366.",
        query=QUERY,
        replies=_REPLIES,
        errors=[400],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/usage",
        handler=report_all_usage,
        auth=Auth.ADMIN,
        summary="Read what all tenants have used",
        query=ADMIN_QUERY,
        replies=_REPLIES,
        errors=[400],
    ),
)
