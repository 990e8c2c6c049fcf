"""The files of a folder as resources of an MCP server: which are offered, and that no others are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.tools import Media
from archon_mesh.tools.mcp import ResourceFolder
from archon_mesh.tools.mcp.serving import folder as folder_module
from archon_mesh.tools.mcp.serving import resources as resources_module


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder with files, beside a secret."""
    folder = tmp_path / "documents"
    for name, text in (
        *(("guide.md", "# Guide"), ("a b/ü.txt", "umlaut"), ("data.yaml", "a: 1"), ("logo.png", "png")),
        *((".env", "TOKEN=1"), (".git/config", "[core]"), ("a b/.hidden", "hidden")),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.txt").write_text("secret")
    return folder


async def read(folder: ResourceFolder, uri: str) -> bytes | None:
    media = await folder.read(uri)
    return None if media is None else media.data


async def test_files_are_listed_and_read(documents: Path) -> None:
    folder = ResourceFolder("docs://", documents)
    assert [(each.uri, each.name, each.media_type, each.size) for each in folder.resources()] == [
        ("docs://data.yaml", "data.yaml", "application/yaml", 4),
        ("docs://guide.md", "guide.md", "text/markdown", 7),
        ("docs://logo.png", "logo.png", "image/png", 3),
        ("docs://a%20b/%C3%BC.txt", "a b/ü.txt", "text/plain", 6),
    ]
    assert await folder.read("docs://guide.md") == Media(b"# Guide", "text/markdown")
    assert await read(folder, "docs://a%20b/%C3%BC.txt") == b"umlaut"
    (template,) = folder.templates()
    assert (template.uri_template, template.name) == ("docs://{+path}", "documents")


@pytest.mark.parametrize(
    "path",
    [
        *("../secret.txt", "..%2Fsecret.txt", "%2e%2e/secret.txt", "a%20b/../../secret.txt", "./guide.md", "..", "."),
        *("/etc/passwd", "%2Fetc%2Fpasswd", "//etc/passwd", "..%5Csecret.txt", "guide.md%00.txt", "guide.md/", ""),
        *(".env", ".git/config", "a%20b/.hidden", "a%20b", "none.md", "x" * 300, "x/" * 600),
    ],
)
async def test_path_of_no_offered_file_reads_nothing(documents: Path, path: str) -> None:
    assert await read(ResourceFolder("docs://", documents), f"docs://{path}") is None


async def test_uri_of_another_folder_is_not_read(documents: Path) -> None:
    folder = ResourceFolder("docs://a/", documents)
    assert await read(folder, "docs://b/guide.md") is None
    assert await read(folder, "docs://a/guide.md") == b"# Guide"


async def test_links_out_of_the_folder_are_not_followed(documents: Path) -> None:
    (documents / "out.txt").symlink_to("../secret.txt")
    (documents / "outside").symlink_to("..")
    (documents / "env.txt").symlink_to(".env")
    (documents / "circle").symlink_to("circle")
    (documents / "inside.md").symlink_to("guide.md")
    folder = ResourceFolder("docs://", documents)
    for name in ("out.txt", "outside/secret.txt", "env.txt", "circle"):
        assert await read(folder, f"docs://{name}") is None, name
    assert await read(folder, "docs://inside.md") == b"# Guide"
    names = {each.name for each in folder.resources()}
    assert "inside.md" in names
    assert not names & {"out.txt", "env.txt", "circle"}


async def test_file_that_is_replaced_by_a_link_is_not_read(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ResourceFolder("docs://", documents)
    inside = folder._inside

    def then_replaced(name: str) -> Path | None:
        path = inside(name)
        assert path is not None
        path.unlink()
        path.symlink_to("../secret.txt")
        return path

    monkeypatch.setattr(folder, "_inside", then_replaced)
    assert await read(folder, "docs://guide.md") is None


async def test_pipe_is_neither_listed_nor_waited_for(documents: Path) -> None:
    os.mkfifo(documents / "pipe.txt")
    folder = ResourceFolder("docs://", documents)
    assert await read(folder, "docs://pipe.txt") is None
    assert "pipe.txt" not in {each.name for each in folder.resources()}


async def test_files_and_their_sizes_are_bounded(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "MAX_RESOURCE_BYTES", 6)
    monkeypatch.setattr(folder_module, "MAX_FILES", 3)
    folder = ResourceFolder("docs://", documents)
    with pytest.raises(ResourceExhausted, match="has 7 bytes; the limit is 6"):
        await folder.read("docs://guide.md")
    assert len(folder.resources()) == 3
    monkeypatch.setattr(folder_module, "MAX_ENTRIES", 2)
    assert [each.name for each in folder.resources()] == ["data.yaml"]


async def test_names_of_files_complete_a_path(documents: Path) -> None:
    folder = ResourceFolder("docs://", documents)
    assert await folder.completed("docs://{+path}", "path", "a b/") == ["a b/ü.txt"]
    assert await folder.completed("other://{+path}", "path", "") is None


@pytest.mark.parametrize(
    "uri", ["docs", "docs://a", "docs/", "docs://{a}/", "docs://a?b/", "docs://" + "x" * 2_000 + "/"]
)
def test_invalid_uri_of_a_folder_is_refused(documents: Path, uri: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid URI"):
        ResourceFolder(uri, documents)


def test_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is none"):
        ResourceFolder("docs://", tmp_path / "none")
