"""Commands about the schedules of a tenant."""

from __future__ import annotations

from parley.cli.admin.command import AdminArgument, AdminCommand, AdminOption, Target

SCHEDULE = AdminArgument("id", "The schedule's id.")
WHEN = (
    AdminOption("cron", "Minute, hour, day of the month, month, day of the week; or @daily.", metavar="CRON"),
    AdminOption("every", "An interval of at least a minute: '15 minutes'.", metavar="INTERVAL"),
    AdminOption("at", "One moment, with its offset: 2026-03-01T09:00:00+01:00.", metavar="TIME"),
    AdminOption("time-zone", "The time zone of the cron expression: Europe/Berlin.", metavar="ZONE"),
)
BEHAVIOUR = (
    AdminOption("data", "Data beside the text: JSON, or @ and a file.", metavar="JSON", is_json=True),
    AdminOption("missed", "What to do about missed ticks: skip, run_once or run_all.", metavar="POLICY"),
    AdminOption("overlap", "What to do while the run before is at work: skip or allow.", metavar="POLICY"),
    AdminOption(
        "conversation",
        "The id of a conversation, new for one per run, or none.",
        metavar="ID",
        is_word_or_number=True,
    ),
    AdminOption("ends-at", "No run begins after this: 2027-12-31T00:00:00+01:00.", metavar="TIME"),
    AdminOption("max-runs", "How many runs there are at most.", int, "N"),
    AdminOption("retries", "How often a tick is tried again if a quota refuses it.", int, "N"),
    AdminOption("enabled", "Whether it is active.", bool),
)
PAGE = (
    AdminOption("limit", "How many.", int, "N", target=Target.QUERY),
    AdminOption("cursor", "The next_cursor of the page before.", target=Target.QUERY),
)
IF_REVISION = AdminOption(
    "if-revision", "Change nothing if the schedule has another revision.", int, "N", target=Target.IF_MATCH
)

COMMANDS = (
    AdminCommand(
        words=("schedules", "list"),
        help="List the schedules of a tenant.",
        example="schedules list --tenant 1",
        method="GET",
        path="/v1/schedules",
        options=PAGE,
        rows="schedules",
        columns=("id", "name", "agent_id", "cron", "every", "time_zone", "status", "next_ticks"),
    ),
    AdminCommand(
        words=("schedules", "show"),
        help="Show a schedule.",
        example="schedules show nightly --tenant 1",
        method="GET",
        path="/v1/schedules/{id}",
        arguments=(SCHEDULE,),
    ),
    AdminCommand(
        words=("schedules", "create"),
        help="Send a message to an agent by cron expression, at an interval, or once: give --cron, --every or --at.",
        example="schedules create 'Daily summary' 'Sum up the day' --id nightly --cron '0 22 * * *' --tenant 1",
        method="POST",
        path="/v1/schedules",
        arguments=(
            AdminArgument("name", "What it is for.", "name"),
            AdminArgument("message", "What the agent is told.", "message"),
        ),
        options=(
            AdminOption("id", "Its id; the host chooses one if there is none.", metavar="ID"),
            AdminOption("agent-id", "The agent; index if there is none.", metavar="ID"),
            *WHEN,
            *BEHAVIOUR,
        ),
    ),
    AdminCommand(
        words=("schedules", "change"),
        help="Change a schedule; what is not given stays as it is.",
        example="schedules change nightly --cron '30 22 * * *' --tenant 1",
        method="PATCH",
        path="/v1/schedules/{id}",
        arguments=(SCHEDULE,),
        options=(
            AdminOption("name", "What it is for.", metavar="NAME"),
            AdminOption("message", "What the agent is told."),
            AdminOption("agent-id", "The agent.", metavar="ID"),
            *WHEN,
            *BEHAVIOUR,
            IF_REVISION,
        ),
    ),
    AdminCommand(
        words=("schedules", "delete"),
        help="Delete a schedule. Runs that have begun go on.",
        example="schedules delete nightly --tenant 1",
        method="DELETE",
        path="/v1/schedules/{id}",
        arguments=(SCHEDULE,),
        options=(IF_REVISION,),
    ),
    AdminCommand(
        words=("schedules", "pause"),
        help="Pause a schedule.",
        example="schedules pause nightly --tenant 1",
        method="POST",
        path="/v1/schedules/{id}/pause",
        arguments=(SCHEDULE,),
    ),
    AdminCommand(
        words=("schedules", "resume"),
        help="Resume a schedule.",
        example="schedules resume nightly --tenant 1",
        method="POST",
        path="/v1/schedules/{id}/resume",
        arguments=(SCHEDULE,),
    ),
    AdminCommand(
        words=("schedules", "run"),
        help="Begin a run now, beside the ticks.",
        example="schedules run nightly --tenant 1",
        method="POST",
        path="/v1/schedules/{id}/run",
        arguments=(SCHEDULE,),
    ),
    AdminCommand(
        words=("schedules", "runs"),
        help="List what became of the last ticks.",
        example="schedules runs nightly --tenant 1",
        method="GET",
        path="/v1/schedules/{id}/runs",
        arguments=(SCHEDULE,),
        options=PAGE,
        rows="runs",
        columns=("tick", "trigger", "outcome", "reason", "request_id", "state"),
    ),
    AdminCommand(
        words=("schedules", "preview"),
        help="Show when a schedule would run next.",
        example="schedules preview --cron '0 9 * * mon-fri' --time-zone Europe/Berlin --tenant 1",
        method="GET",
        path="/v1/schedules/preview",
        options=tuple(
            [AdminOption(option.name, option.help, metavar=option.metavar, target=Target.QUERY) for option in WHEN]
        ),
    ),
)
