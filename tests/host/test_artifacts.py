"""The files of conversations: their paths, their contents and their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from parley.host.data import artifacts as limits
from parley.host.data.artifact_path import InvalidPathError, clean_path
from parley.host.data.artifacts import ArtifactNotFoundError, Artifacts, StoredArtifact
from parley.host.data.conversations import ConversationNotFoundError
from parley.host.data.errors import InvalidValueError
from parley.host.data.storage import MEBIBYTE, StorageFullError, conversation_bytes, tenant_bytes
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = 1_767_225_600


def paths(artifacts: Sequence[StoredArtifact]) -> list[str]:
    return [artifact.path for artifact in artifacts]


async def test_a_file_is_written_replaced_read_and_deleted() -> None:
    records, clock = MemoryStore().records, FakeClock()
    artifacts = Artifacts(records, clock)
    first = await artifacts.write(ACME, 7, "notes/plan.md", "é")
    assert first == StoredArtifact(
        id=1,
        conversation_id=7,
        path="notes/plan.md",
        sha256="4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c",
        mime_type="text/markdown",
        size=2,
        created_at=NOON,
        updated_at=NOON,
    )
    await clock.advance(3)
    second = await artifacts.write(ACME, 7, "notes//plan.md", "longer", mime_type="text/x-plan")
    assert (second.id, second.size, second.mime_type, second.created_at, second.updated_at) == (
        1,
        6,
        "text/x-plan",
        NOON,
        NOON + 3,
    )
    assert await artifacts.find(ACME, 7, "notes/plan.md") == await artifacts.get(ACME, 1) == second
    assert await artifacts.read(ACME, 1) == "longer"
    assert (await tenant_bytes(records, ACME), await conversation_bytes(records, ACME, 7)) == (6, 6)
    await artifacts.delete(ACME, 1)
    for forgotten in (
        artifacts.get(ACME, 1),
        artifacts.read(ACME, 1),
        artifacts.find(ACME, 7, "notes/plan.md"),
        artifacts.delete(ACME, 1),
    ):
        with pytest.raises(ArtifactNotFoundError):
            await forgotten
    assert (await tenant_bytes(records, ACME), await conversation_bytes(records, ACME, 7)) == (0, 0)


async def test_files_of_other_tenants_and_conversations_stay_apart() -> None:
    artifacts = Artifacts(MemoryStore().records, FakeClock())
    await artifacts.write(ACME, 7, "a.txt", "mine")
    await artifacts.write(OTHER, 7, "a.txt", "theirs")
    await artifacts.write(ACME, 8, "a.txt", "elsewhere")
    assert [await artifacts.read(ACME, id) for id in (1, 2)] == ["mine", "elsewhere"]
    assert await artifacts.read(OTHER, 1) == "theirs"
    for hidden in (artifacts.read(OTHER, 2), artifacts.get(OTHER, 2), artifacts.find(OTHER, 8, "a.txt")):
        with pytest.raises(ArtifactNotFoundError):
            await hidden
    assert [one.id for one in await artifacts.list(ACME)] == [2, 1]
    assert [one.id for one in await artifacts.list(ACME, conversation_id=7)] == [1]


async def test_files_are_listed_in_pages_newest_first() -> None:
    artifacts = Artifacts(MemoryStore().records, FakeClock())
    for number in range(12):
        await artifacts.write(ACME, 7, f"{number}.txt", "x")
    page = await artifacts.list(ACME, conversation_id=7, limit=3)
    assert paths(page) == ["11.txt", "10.txt", "9.txt"]
    rest = await artifacts.list(ACME, conversation_id=7, before_id=page[-1].id)
    assert paths(rest) == [f"{number}.txt" for number in range(8, -1, -1)]
    assert paths(await artifacts.list(ACME, before_id=2)) == ["0.txt"]


async def test_what_exceeds_a_limit_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    records = MemoryStore().records
    artifacts = Artifacts(records, FakeClock())
    with pytest.raises(StorageFullError, match="a file may have"):
        await artifacts.write(ACME, 7, "big.txt", "x" * (MEBIBYTE + 1))
    with pytest.raises(StorageFullError, match="a tenant may keep 5 bytes"):
        await artifacts.write(ACME, 7, "a.txt", "123456", quota=5)
    assert await artifacts.list(ACME) == []
    monkeypatch.setattr(limits, "MAX_ARTIFACTS", 1)
    await artifacts.write(ACME, 7, "a.txt", "")
    with pytest.raises(StorageFullError, match="1 artifacts"):
        await artifacts.write(ACME, 7, "b.txt", "")
    await artifacts.write(ACME, 7, "a.txt", "replaced")
    assert (paths(await artifacts.list(ACME)), await tenant_bytes(records, ACME)) == (["a.txt"], 8)


async def test_a_conversation_keeps_fifty_megabytes_and_a_tenant_more() -> None:
    artifacts = Artifacts(MemoryStore().records, FakeClock())
    for number in range(50):
        await artifacts.write(ACME, 7, f"{number}.txt", "x" * MEBIBYTE)
    with pytest.raises(StorageFullError, match="a conversation may keep"):
        await artifacts.write(ACME, 7, "more.txt", "x")
    await artifacts.write(ACME, 8, "more.txt", "x")
    await artifacts.write(ACME, 7, "0.txt", "shorter")
    await artifacts.write(ACME, 7, "more.txt", "x")


@pytest.mark.parametrize("seed", range(3))
async def test_writers_at_the_same_time_cannot_exceed_a_quota(seed: int) -> None:
    records, clock = suspending_records(seed), FakeClock()
    writers = [Artifacts(records, clock), Artifacts(records, clock)]
    outcomes = await asyncio.gather(
        *(
            writer.write(ACME, conversation, f"{number}.txt", "x" * 300, quota=1_000)
            for number in range(3)
            for conversation, writer in enumerate(writers, 1)
        ),
        return_exceptions=True,
    )
    written = [outcome for outcome in outcomes if isinstance(outcome, StoredArtifact)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, StorageFullError)]
    assert (len(written), len(refused), await tenant_bytes(records, ACME)) == (3, 3, 900)
    assert sorted(one.id for one in await writers[0].list(ACME)) == sorted(one.id for one in written)


async def test_a_repeated_write_with_the_same_key_changes_nothing() -> None:
    clock = FakeClock()
    artifacts = Artifacts(MemoryStore().records, clock)
    first = await artifacts.write(ACME, 7, "a.txt", "first", key="step-1")
    second = await artifacts.write(ACME, 7, "a.txt", "second", key="step-2")
    await clock.advance(10)
    assert await artifacts.write(ACME, 7, "a.txt", "first", key="step-1") == second
    assert (first.id, await artifacts.read(ACME, 1)) == (1, "second")
    assert (await artifacts.write(OTHER, 7, "a.txt", "theirs", key="step-1")).updated_at == NOON + 10


async def test_a_deleted_conversation_loses_its_files_and_takes_no_more() -> None:
    records = MemoryStore().records
    artifacts = Artifacts(records, FakeClock())
    for number in range(3):
        await artifacts.write(ACME, 7, f"{number}.txt", "x" * number)
    await artifacts.write(ACME, 8, "kept.txt", "kept")
    await artifacts.delete_conversation(ACME, 7)
    assert (paths(await artifacts.list(ACME)), await tenant_bytes(records, ACME)) == (["kept.txt"], 4)
    for content in ("", "x"):
        with pytest.raises(ConversationNotFoundError):
            await artifacts.write(ACME, 7, "late.txt", content)
    await artifacts.write(OTHER, 7, "theirs.txt", "x")


async def test_text_that_is_not_unicode_is_refused() -> None:
    artifacts = Artifacts(MemoryStore().records, FakeClock())
    with pytest.raises(InvalidValueError, match=r"^\$\.content"):
        await artifacts.write(ACME, 7, "a.txt", "\ud800")
    with pytest.raises(InvalidValueError, match=r"^\$\.mime_type"):
        await artifacts.write(ACME, 7, "a.txt", "x", mime_type="text/plain\r\nx: y")


@pytest.mark.parametrize(
    ("path", "clean"),
    [("a.md", "a.md"), ("notes\\a.md", "notes/a.md"), (" a//b///c.md/ ", "a/b/c.md"), ("é/ü.txt", "é/ü.txt")],
)
def test_a_path_has_one_form(path: str, clean: str) -> None:
    assert clean_path(path) == clean == clean_path(clean)


@pytest.mark.parametrize(
    "path",
    [
        *("", " ", "/", "/etc/passwd", "\\\\server\\share", "C:\\a.txt", "file:x"),
        *("..", "../a", "a/../b", "a/./b", ".env", "a/.git/config"),
        *("a\x00b", "a\nb", "a\x7fb", "a\u202eb", "a\ud800"),
        *("nul", "CON.txt", "a/com1.md", "x" * 129, "/".join(["x" * 100] * 3)),
    ],
)
def test_a_path_that_could_do_harm_is_refused(path: str) -> None:
    with pytest.raises(InvalidPathError, match=r"^\$\.path: "):
        clean_path(path)
