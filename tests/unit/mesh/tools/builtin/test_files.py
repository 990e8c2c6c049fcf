"""Files inside one folder, which no path leaves."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from archon.errors import (
    ArchonError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from archon_mesh.tools.builtin import ListFiles, ReadFile, WriteFile
from archon_mesh.tools.builtin.files import MAX_ENTRIES, READ_BYTES, WRITE_BYTES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside which a secret stands."""
    (tmp_path / "secret").write_text("the secret")
    root = tmp_path / "root"
    root.mkdir()
    return root


async def test_what_is_written_is_read_and_listed(root: Path) -> None:
    assert (
        await WriteFile(root).execute(path="notes/2026/today.md", content="grüße\n")
        == "wrote 8 bytes to notes/2026/today.md"
    )
    assert await ReadFile(root).execute(path="./notes//2026/today.md") == "grüße\n"
    await WriteFile(root).execute(path="notes/2026/today.md", content="")
    assert await ReadFile(root).execute(path="notes/2026/today.md") == ""
    assert await ListFiles(root).execute() == {"folders": ["notes"], "files": {}, "more": False}
    assert await ListFiles(root).execute(path="notes/2026/") == {"folders": [], "files": {"today.md": 0}, "more": False}


async def test_a_long_file_is_read_part_by_part(root: Path) -> None:
    text = "äöü€" * READ_BYTES
    (root / "long").write_text(text)
    read, offset = "", 0
    while True:
        part = await ReadFile(root).execute(path="long", offset=offset)
        body, note, more = part.partition("\n\n[")
        read += body
        if not note:
            break
        offset = int(more.split()[-2].replace(",", ""))
    assert len(read) > len(text) * 0.999, "only characters on the bounds are missing"


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "/etc/passwd", "", ".", "/", "a\0b", "..", "x/..", "\ud800"]
)
async def test_a_path_that_is_none_of_the_folder_is_refused(root: Path, path: str) -> None:
    for call in (ReadFile(root).execute(path=path), WriteFile(root).execute(path=path, content="x")):
        with pytest.raises(InvalidArgument, match="invalid path"):
            await call
    assert (root.parent / "secret").read_text() == "the secret"
    assert os.listdir(root) == []


@pytest.mark.parametrize("path", ["..", "/", "a/..", "/etc"])
async def test_a_folder_outside_is_not_listed(root: Path, path: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid path"):
        await ListFiles(root).execute(path=path)


async def test_a_path_that_is_too_long_is_refused(root: Path) -> None:
    for path in ("x" * 300, "a/" * 100 + "b"):
        with pytest.raises(InvalidArgument, match="more than 50 parts, or a part of over 255 bytes"):
            await WriteFile(root).execute(path=path, content="x")


async def test_links_are_not_followed(root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(root.parent)
    (root / "inside").symlink_to("real")
    (root / "real").write_text("x")
    os.link(root.parent / "secret", root / "hard")
    for path in ("file", "folder/secret", "inside", "hard"):
        with pytest.raises(PermissionDenied):
            await ReadFile(root).execute(path=path)
    for path in ("folder/new", "hard"):
        with pytest.raises(PermissionDenied):
            await WriteFile(root).execute(path=path, content="x")
    with pytest.raises(PermissionDenied):
        await ListFiles(root).execute(path="folder")
    assert (await ListFiles(root).execute())["files"].keys() == {"hard", "real"}
    assert (root.parent / "secret").read_text() == "the secret"
    assert not (root.parent / "new").exists()


async def test_special_files_are_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for path in ("pipe", "folder"):
        async with asyncio.timeout(60):
            with pytest.raises(PermissionDenied):
                await ReadFile(root).execute(path=path)
            with pytest.raises(PermissionDenied):
                await WriteFile(root).execute(path=path, content="x")


async def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(root: Path) -> None:
    """A race between two programs: one opens paths, the other one replaces a folder by a link and back."""
    (root / "folder").mkdir()
    (root / "folder" / "secret").write_text("harmless")
    done = threading.Event()

    def replace() -> None:
        while not done.is_set():
            (root / "folder").rename(root / "away")
            with suppress(FileExistsError):  # the writer has created the folder anew
                (root / "folder").symlink_to(root.parent)
                (root / "folder").unlink()
            while (root / "away").exists():
                shutil.rmtree(root / "folder", ignore_errors=True)
                with suppress(OSError):
                    (root / "away").rename(root / "folder")

    racing = threading.Thread(target=replace)
    racing.start()
    try:
        reader, writer, got = ReadFile(root), WriteFile(root), set[str]()
        for number in count():
            if number >= 2_000 and got:  # on a busy machine the folder may be away all the time
                break
            try:
                got.add(await reader.execute(path="folder/secret"))
                if number % 10 == 0:
                    await writer.execute(path="folder/secret", content="harmless")
            except ArchonError:
                continue
    finally:
        done.set()
        racing.join()
    assert got == {"harmless"}
    assert (root.parent / "secret").read_text() == "the secret"


async def test_what_is_missing_or_no_text_or_too_large_is_refused(root: Path) -> None:
    (root / "image").write_bytes(b"\x89PNG\xff")
    with pytest.raises(NotFound, match="there is no absent"):
        await ReadFile(root).execute(path="absent")
    with pytest.raises(PermissionDenied, match="image is not a text file"):
        await ReadFile(root).execute(path="image")
    with pytest.raises(InvalidArgument, match="behind the end of image"):
        await ReadFile(root).execute(path="image", offset=100)
    with pytest.raises(InvalidArgument, match="at most 1,048,576 are allowed"):
        await WriteFile(root).execute(path="big", content="x" * (WRITE_BYTES + 1))
    with pytest.raises(InvalidArgument, match="no text"):
        await WriteFile(root).execute(path="big", content="\ud800")
    with pytest.raises(PermissionDenied, match="over a file as if it were a folder"):
        await WriteFile(root).execute(path="image/x", content="x")
    assert os.listdir(root) == ["image"]


async def test_a_large_folder_is_listed_in_part(root: Path) -> None:
    for number in range(MAX_ENTRIES + 1):
        (root / f"{number:05}").touch()
    listed = await ListFiles(root).execute()
    assert (len(listed["files"]), listed["more"]) == (MAX_ENTRIES, True)


@pytest.mark.parametrize("offset", [-1, 4, 2**31, 2**63 - 1, 2**63, 2**64, 10**300, 1e300])
async def test_an_offset_beyond_the_file_is_refused(root: Path, offset: int) -> None:
    (root / "short").write_text("abc")
    with pytest.raises(InvalidArgument, match=r"is (behind|before) the (end|beginning) of short, which has 3 bytes"):
        await ReadFile(root).execute(path="short", offset=offset)
    assert await ReadFile(root).execute(path="short", offset=1.0) == "bc"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ESTALE])
async def test_a_fault_of_the_system_is_a_typed_error(root: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    (root / "there").write_text("abc")
    monkeypatch.setattr(os, "rename", fail)
    monkeypatch.setattr(os, "pread", fail)
    monkeypatch.setattr(os, "listdir", fail)
    with pytest.raises((ResourceExhausted, FailedPrecondition), match=os.strerror(number)):
        await WriteFile(root).execute(path="new", content="x")
    with pytest.raises((ResourceExhausted, FailedPrecondition), match=os.strerror(number)):
        await ReadFile(root).execute(path="there")
    with pytest.raises((ResourceExhausted, FailedPrecondition), match=os.strerror(number)):
        await ListFiles(root).execute()


async def test_a_root_that_was_removed_is_a_typed_error(root: Path) -> None:
    tools = ReadFile(root), WriteFile(root), ListFiles(root)
    os.rmdir(root)
    for tool, arguments in zip(tools, ({"path": "a"}, {"path": "a", "content": ""}, {}), strict=True):
        with pytest.raises(FailedPrecondition, match="the folder of the tool cannot be used: No such file"):
            await tool.execute(**arguments)


@pytest.mark.parametrize("name", ["gone", "a\0b", "x" * 5_000])
def test_a_root_in_a_removed_directory_is_refused(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    root.rmdir()
    with pytest.raises(FailedPrecondition, match="is not a folder"):
        ReadFile(name)


def test_a_root_that_is_no_folder_is_refused(root: Path) -> None:
    with pytest.raises(FailedPrecondition, match="is not a folder"):
        ReadFile(root / "absent")
