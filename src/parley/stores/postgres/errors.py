"""What errors of the database and of the driver mean: to people, and for what to do next.

Every one of them becomes a `StoreError` here, once. None of the texts holds a password, a name of a task or a value.
"""

from __future__ import annotations

import asyncpg
import msgspec

from parley.stores.interface import StoreError, StoreUnavailableError

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What the driver raises."""

EXPLAINED = (*DRIVER_ERRORS, UnicodeEncodeError, msgspec.MsgspecError)
"""What becomes a `StoreError`."""

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # the server became a standby
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.InternalClientError,  # the driver does not know any more what the server is doing
    OSError,
    TimeoutError,
)

_UNREACHABLE = "the database cannot be reached"

_MEANINGS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (asyncpg.ClientConfigurationError, "the URL or the environment has an invalid setting of the connection"),
    # The error of the driver does not say which.
    (FileNotFoundError, "a file that the URL or the environment names is not there: a socket, or one of TLS"),
    (asyncpg.InvalidAuthorizationSpecificationError, "the database refuses this user or password"),
    (asyncpg.InvalidCatalogNameError, "there is no database of this name"),
    (asyncpg.InsufficientPrivilegeError, "the database user lacks a privilege"),
    (asyncpg.DiskFullError, "the disk of the database is full"),
    (asyncpg.OutOfMemoryError, "the database has no memory left"),
    (asyncpg.TooManyConnectionsError, "the database has too many connections"),
    ((asyncpg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched), "the database can only be read"),
    (asyncpg.CannotConnectNowError, "the database is starting or stopping"),
    ((asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError), "the database took too long"),
    (_LOST, _UNREACHABLE),
)


def is_lost(error: BaseException, connection: asyncpg.Connection | None = None) -> bool:
    """Whether an error says that a connection is gone, or no longer of use, and that another one may do."""
    if isinstance(error, asyncpg.DataError):
        return False
    return isinstance(error, _LOST) or (
        isinstance(error, asyncpg.InterfaceError) and (connection is None or connection.is_closed())
    )


def meaning_of(error: BaseException) -> str | None:
    """What an error means to people, without names; None for those that should not happen."""
    for kinds, meaning in _MEANINGS:
        if isinstance(error, kinds):
            return meaning
    return _UNREACHABLE if is_lost(error) else None


def explain(error: BaseException, name: str) -> StoreError:
    """An error in words that say what to do about it; `name` is what the database is called."""
    cause = error.__cause__
    match error:
        case StoreError():
            explained = error
        case UnicodeEncodeError():
            explained, cause = StoreError("A name cannot be kept or looked for: it is not valid Unicode."), error
        case asyncpg.DataError() if isinstance(cause, UnicodeEncodeError):
            explained = StoreError("A name cannot be kept or looked for: it is not valid Unicode.")
        case asyncpg.CharacterNotInRepertoireError():
            explained, cause = unstorable(""), unstorable("").__cause__
        case msgspec.MsgspecError():
            explained, cause = StoreUnavailableError(f"{name}: a stored value is damaged: {error}"), error
        case _:
            meaning, text = meaning_of(error), _text_of(error)
            explained, cause = (
                StoreUnavailableError(f"{name}: {meaning} ({text})" if meaning else f"{name}: {text}"),
                error,
            )
    if explained is not error:
        explained.__cause__ = cause
    return explained


def _text_of(error: BaseException) -> str:
    if isinstance(error, asyncpg.PostgresError):
        return f"{error.sqlstate}: {error.args[0] if error.args else type(error).__name__}"  # without its details
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__


def require_storable(*texts: str) -> None:
    """Refuse names that a column of text cannot hold.

    Raises:
        StoreError: U+0000 is in one of them.
    """
    for text in texts:
        if "\x00" in text:
            raise unstorable(text)


def unstorable(text: str) -> StoreError:
    """The refusal of a name with U+0000. Its cause is that of other names that cannot be encoded."""
    at = max(text.find("\x00"), 0)
    error = StoreError("A name cannot be kept or looked for: PostgreSQL has no U+0000 in texts.")
    error.__cause__ = UnicodeEncodeError("utf-8", text or "\x00", at, at + 1, "U+0000 is not allowed")
    return error
