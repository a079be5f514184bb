"""`parley keys`: creates, lists, rotates, retires and exports the keys that a server signs with.

Servers that use the folder follow every change within a second, without a restart. Private keys are never shown: only
`export --private FILE` writes one, to a file that its owner alone can read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeAlias, TypeVar

import msgspec
import typer

from parley.cli.options.durations import read_duration, seconds_as_text
from parley.cli.output.exit_codes import fail
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import console, print_json
from parley.keys.rotation import LEAD, OVERLAP, KeyState, Rotation, StoredKey
from parley.protocol.errors import LocalProtocolError

if TYPE_CHECKING:
    from parley.keys.key_folder import KeyFolder
    from parley.keys.signing_key import LocalKey

T = TypeVar("T")

EXIT_CODES = """\b
Exit codes:
  0    success
  1    the folder or a file cannot be used, or the change is refused; nothing has changed
  2    invalid arguments
"""

Algorithm: TypeAlias = Literal["ES256", "RS256", "EdDSA"]
Format: TypeAlias = Literal["jwks", "pem"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the keys.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as parley keys list shows it.")]
Imported = Annotated[
    Path | None,
    typer.Option("--import", metavar="FILE", help="Use this private key, PEM or JWK, instead of a new one."),
]
NewId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="The key's id.", show_default="the day and a part of its hash")
]
AuditFile = Annotated[
    Path | None,
    typer.Option("--audit-log", metavar="FILE", help="Also write a line to this audit trail, such as the server's."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")]

app = typer.Typer(
    cls=ParleyGroup,
    help="Create, rotate and retire the keys that a server signs with.",
    rich_markup_mode=None,
)


@app.command("new", cls=ParleyCommand, epilog=EXIT_CODES)
def new(
    folder: Folder,
    algorithm: Annotated[Algorithm, typer.Option(metavar="NAME", help="ES256, RS256 or EdDSA.")] = "ES256",
    imported: Imported = None,
    key_id: NewId = None,
    audit_log: AuditFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a folder with a first key, to sign cards and webhooks with.

    Only its owner can read the folder and the key.

    \b
    Examples:
      parley keys new keys
      parley serve currency:agent --signing-key keys
      parley keys new keys --import key.pem
    """
    given = _imported(imported)
    keys = _keys(folder)
    made = _done(lambda: keys.create(given and given.private_key, algorithm=algorithm, key_id=key_id))
    _record(audit_log, "key-created", made.key_id)
    _report(keys, made, f"Created {folder} with the key {made.key_id}.", as_json=as_json)


@app.command("list", cls=ParleyCommand, epilog=EXIT_CODES)
def list_keys(folder: Folder, as_json: AsJson = False) -> None:
    """List the keys: which one signs, and until when the others are published.

    \b
    Examples:
      parley keys list keys
      parley keys list keys --json
    """
    rotation, now = _done(_keys(folder).read), datetime.now(UTC)
    from parley.keys.stored_keys import check_folder

    for warning in _done(lambda: check_folder(folder)):
        console(stderr=True).print(f"Warning: {warning}", style="yellow")
    if as_json:
        print_json(msgspec.json.encode({"keys": [_row(rotation, one, now) for one in rotation.keys]}))
        return
    out = console()
    width = max((len(one.key_id) for one in rotation.keys), default=0)
    for one in rotation.keys:
        state = rotation.state(one, now)
        line = f"{one.key_id:{width}}  {one.key.algorithm}  {state:8}  {_when(rotation, one, state)}"
        out.print(line, highlight=False, soft_wrap=True)
    if not rotation.keys:
        console(stderr=True).print(f"There are no keys. Create one: parley keys new {folder}")


@app.command("rotate", cls=ParleyCommand, epilog=EXIT_CODES)
def rotate(
    folder: Folder,
    lead: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long the new key is published before it signs.",
            show_default=seconds_as_text(LEAD.total_seconds()),
        ),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long the old key stays published after that.",
            show_default=seconds_as_text(OVERLAP.total_seconds()),
        ),
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Sign with the new key at once: for a key that is compromised.")
    ] = False,
    algorithm: Annotated[
        Algorithm | None,
        typer.Option(metavar="NAME", help="ES256, RS256 or EdDSA.", show_default="that of the current key"),
    ] = None,
    imported: Imported = None,
    key_id: NewId = None,
    audit_log: AuditFile = None,
    as_json: AsJson = False,
) -> None:
    """Replace the current key, without a signature being rejected.

    The new key is published now and signs later, when receivers know it; the old one stays published until what it has
    signed is no longer in use. Servers need no restart. With --now, receivers that have just fetched the keys may
    reject signatures until they fetch them again. Keys whose time is over are deleted.

    \b
    Examples:
      parley keys rotate keys
      parley keys rotate keys --lead 1h --overlap 7d
      parley keys rotate keys --now
    """
    if now and lead is not None:
        raise typer.BadParameter("It is zero with --now. Leave out one of them.", param_hint="--lead")
    wait = timedelta() if now else LEAD if lead is None else read_duration(lead, "--lead")
    kept = OVERLAP if overlap is None else read_duration(overlap, "--overlap")
    given = _imported(imported)
    keys = _keys(folder)
    made = _done(
        lambda: keys.rotate(
            given and given.private_key,
            lead=wait,
            overlap=kept,
            algorithm=algorithm,
            key_id=key_id,
        )
    )
    _record(audit_log, "key-rotated", made.key_id)
    begins = "now" if now else f"from {_time(made.active_from)} on"
    text = f"{made.key_id} is published, and signs {begins}. The key before it is published until "
    _report(keys, made, f"{text}{_time(made.active_from + made.overlap)}.", as_json=as_json)


@app.command("retire", cls=ParleyCommand, epilog=EXIT_CODES)
def retire(
    folder: Folder,
    key: KeyId,
    now: Annotated[
        bool, typer.Option("--now", help="Even if what it has signed is in use, which is then rejected.")
    ] = False,
    audit_log: AuditFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a key that does not sign, for good.

    Retiring the next key ends the rotation. If the current key is compromised, first rotate with --now.

    \b
    Examples:
      parley keys retire keys 2026-05-01-1f3c9a7e
      parley keys retire keys 2026-05-01-1f3c9a7e --now
    """
    _done(lambda: _keys(folder).retire(key, now=now))
    _record(audit_log, "key-retired", key)
    if as_json:
        print_json(msgspec.json.encode({"retired": key}))
    else:
        console().print(f"{key} is deleted.", highlight=False)


@app.command("export", cls=ParleyCommand, epilog=EXIT_CODES)
def export(
    folder: Folder,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="One key.", show_default="all that are published")
    ] = None,
    form: Annotated[Format, typer.Option("--format", metavar="NAME", help="jwks or pem.")] = "jwks",
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the private key to this new file instead; needs KEY.")
    ] = None,
) -> None:
    """Show the public keys, as a JSON Web Key Set or in PEM.

    \b
    Examples:
      parley keys export keys > jwks.json
      parley keys export keys 2026-05-01-1f3c9a7e --format pem
      parley keys export keys 2026-05-01-1f3c9a7e --private key.json
    """
    if private is not None and key is None:
        raise typer.BadParameter("Name the key to write.", param_hint="KEY")
    rotation = _done(_keys(folder).read)
    found = None if key is None else rotation.find(key)
    if key is not None and found is None:
        fail(f"{folder} has no key {key}. See parley keys list {folder}")
    if private is not None and found is not None:
        _write_private(private, found.key, form)
        return
    from parley.keys.signing_key import encode_key_set

    published = rotation.published(datetime.now(UTC)) if rotation.keys else ()
    chosen = [one.key for one in (published if found is None else (found,))]
    typer.echo(b"".join(one.pem() for one in chosen) if form == "pem" else encode_key_set(chosen), nl=form == "jwks")


# --- input and output -------------------------------------------------------------------------------------------------


def _keys(folder: Path) -> KeyFolder:
    from parley.keys.key_folder import KeyFolder  # not above: the other commands need not wait for cryptography

    return KeyFolder(folder)


def _done(work: Callable[[], T]) -> T:
    """Do the work, or end the command with the reason why it cannot be done."""
    try:
        return work()
    except LocalProtocolError as error:
        fail(f"{str(error).rstrip('.')}.")


def _imported(file: Path | None) -> LocalKey | None:
    if file is None:
        return None
    from parley.keys.given_keys import read_key_file

    try:
        return read_key_file(file)
    except OSError as error:
        _refuse(f"{file} cannot be read: {error.strerror}")
    except LocalProtocolError as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    raise typer.BadParameter(f"{message.rstrip('.')}.", param_hint="--import")


def _write_private(file: Path, key: LocalKey, form: Format) -> None:
    from parley.keys.stored_keys import write_private

    content = key.pem(private=True) if form == "pem" else msgspec.json.encode(key.private_jwk()) + b"\n"
    try:
        write_private(file, content, replaces=False)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}.")
    console(stderr=True).print(
        f"{file} has the private key {key.key_id}. Anyone who reads it can sign.", highlight=False
    )


def _record(file: Path | None, what: Literal["key-created", "key-rotated", "key-retired"], key_id: str) -> None:
    if file is None:
        return
    from parley.server.telemetry.audit import AuditLine, AuditTrail, utc_now

    trail = AuditTrail(file)
    try:
        trail.open()
    except OSError as error:
        fail(f"The keys have changed, but {file} cannot be written: {error.strerror}.")
    trail.append(AuditLine(utc_now(), what, caller=_user(), key=key_id))
    trail.close()


def _user() -> str:
    """The user of the system who runs this command."""
    try:
        import pwd

        return f"os:{pwd.getpwuid(os.getuid()).pw_name}"
    except (ImportError, KeyError):  # Windows; or a container without an entry for the user
        return "os"


def _report(keys: KeyFolder, made: StoredKey, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(_row(_done(keys.read), made, datetime.now(UTC))))
    else:
        console().print(text, highlight=False)


def _row(rotation: Rotation, key: StoredKey, now: datetime) -> dict[str, Any]:
    key = rotation.find(key.key_id) or key
    until = rotation.published_until(key)
    return {
        "id": key.key_id,
        "algorithm": key.key.algorithm,
        "state": rotation.state(key, now),
        "created": key.created,
        "signs_from": key.active_from,
        "published_until": until,
    }


def _when(rotation: Rotation, key: StoredKey, state: KeyState) -> str:
    until = rotation.published_until(key)
    match state:
        case KeyState.NEXT:
            return f"signs from {_time(key.active_from)} on"
        case KeyState.CURRENT:
            return f"signs since {_time(key.active_from)}"
        case KeyState.RETIRING:
            return f"published until {_time(until)}" if until else "published"
        case KeyState.EXPIRED:
            return "not published; a later rotation deletes it"


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
