"""File formats of puzzles: detection and reading.

Input: an open `LocalSource` and the `Board` of its puzzles. Output: `TextRow`s. Text formats are one puzzle per line,
grids over several lines, JSON, JSON Lines and OpenSudoku's XML; tables are CSV, Parquet and npz. docs/datasets.md
lists them. Neighbours: `sources.rows` reads CSV; `kinds.sudoku.source` and `kinds.maze.source` decode the cells.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np

from trm_data.errors import SourceError
from trm_data.sources.arrays import load_npz, names_in_npz
from trm_data.sources.base import LocalSource, find_magic
from trm_data.sources.columns import find_columns, no_column, parse_columns
from trm_data.sources.rows import TextRow, read_csv
from trm_data.sources.unpack import parquet_batches
from trm_data.storage.atomic import parse_json

LOOKED_AT = 1 << 16
"""Number of characters from which the format of a text is detected."""
MOST_CHARACTERS = 1 << 28
"""Maximum length of JSON (other than JSON Lines) and XML, which are read as a whole, in characters."""
FORMS = "docs/datasets.md lists the forms that are read"
BOX_OF_SIDE = {4: "2x2", 6: "2x3", 8: "2x4", 9: "3x3", 10: "2x5", 12: "3x4", 15: "3x5", 16: "4x4"}

_SECTION = re.compile(r"\[\s*([A-Za-z][A-Za-z ]*)\]\s*$")
_PUZZLE, _ANSWER = ("puzzle", "question"), ("solution", "answer")
_NOT_READ = ("state", "pencilmarks")
_RULE = re.compile(r"[\s.'`*:|+=_─━┄-]*(--|==|──|━━|\+-)[\s.'`*:|+=_┼╋─━-]*$")
_DRAWN = str.maketrans("", "", "|!│┃║")
_BETWEEN = re.compile(r"[\s,;|]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Board:
    """Text properties of a puzzle.

    Attributes:
        rows: Number of rows R.
        columns: Number of columns C.
        marks: Characters of cells.
        spaces: Whether a space is a cell; else spaces separate cells, and # starts a comment.
    """

    rows: int
    columns: int
    marks: frozenset[str]
    spaces: bool = False

    @property
    def cells(self) -> int:
        """Number of cells, R * C."""
        return self.rows * self.columns


def read_puzzle_rows(source: LocalSource, board: Board) -> Iterator[TextRow]:
    """Yield the rows of a file of any supported format."""
    named = parse_columns(source.spec.columns)
    if source.spec.kind == "table":
        yield from _table(source, named)
        return
    with source.open_text() as text:
        if source.spec.kind == "csv":
            yield from read_csv(text, source.shown, named)
            return
        head = list(_head(text))
        lines = itertools.chain(head, text)
        first = next((line.lstrip() for line in head if line.strip()), "")
        if first.startswith("<"):
            yield from _xml(_whole(lines, source.shown), source.shown)
        elif first.startswith(("{", "[")) and not _SECTION.match(first):
            yield from _json(lines, source.shown, board, named)
        elif any(_puzzle_line(line, board) for line in head):
            yield from _a_line_each(lines, source.shown, board)
        elif _has_grids(head, board):
            yield from _grids(lines, source.shown, board)
        elif _is_near(head, board):
            yield from _a_line_each(lines, source.shown, board)
        else:
            raise _unknown(head, source.shown, board)


def _head(text: Iterator[str]) -> Iterator[str]:
    length = 0
    for line in text:
        yield line
        length += len(line)
        if length > LOOKED_AT:
            return


def _whole(lines: Iterator[str], shown: str) -> str:
    """Return the whole text."""
    found: list[str] = []
    length = 0
    for line in lines:
        found.append(line)
        length += len(line)
        if length > MOST_CHARACTERS:
            raise SourceError(
                f"{shown}: has more than {MOST_CHARACTERS:,} characters, which are too many to read at once. Write "
                "JSON Lines, CSV or Parquet"
            )
    return "".join(found)


def _has_grids(head: list[str], board: Board) -> bool:
    """Return whether lines are rows of grids; those of mazes may have another length, which is then named."""
    if not board.spaces:
        return sum(_grid_row(line, board) is not None for line in head) >= board.rows
    lines = [line.rstrip("\r\n") for line in head if not line.isspace()]
    return sum(len(line) > 1 and board.marks.issuperset(line) for line in lines) > len(lines) // 2


def _unknown(head: list[str], shown: str, board: Board) -> SourceError:
    """Return the error for a text of unknown format."""
    lines = [(number, line.strip()) for number, line in enumerate(head, start=1) if line.strip()]
    if not lines:
        return SourceError(f"{shown}: has no rows")
    width, run = 0, 0
    for _, line in lines:
        width, run = (width, run + 1) if len(line) == width else (len(line), 1)
        if run == width and not board.spaces and (box := BOX_OF_SIDE.get(width)) and width != board.columns:
            return SourceError(
                f"{shown}: holds grids of {width} lines of {width} characters; expected {board.rows} of "
                f"{board.columns}. Build them with --box {box}"
            )
    number, line = lines[0]
    shape = f"{board.cells} cells in a line, or {board.rows} lines of {board.columns}"
    return SourceError(
        f"{shown}:{number}: the form of the file is not known (got a line of {len(line)} characters, {line[:40]!r}; "
        f"expected {shape}). {FORMS}"
    )


# One puzzle per line.


def _words(line: str) -> list[str]:
    """Return the words of a line, without quotes around them and without the comment after `#`."""
    words = filter(None, _BETWEEN.split(line.split("#", 1)[0]))
    return [word[1:-1] if len(word) > 1 and word[0] == word[-1] in "'\"" else word for word in words]


def _puzzle_line(line: str, board: Board) -> TextRow | None:
    """Return the row of a line that has a puzzle, else None.

    Grammar: `[IDENTIFIER] PUZZLE [SOLUTION] [RATING]` between spaces, tabs, `,` `;` or `|`; a solver's record
    `PUZZLE:COUNT:SOLUTION`; or a number for each cell. A word that the grammar does not explain is a problem.
    """
    if board.spaces:
        cells = line.rstrip("\r\n")
        return TextRow(0, cells) if len(cells) == board.cells else None
    words = _words(line)
    if len(words) == board.cells and all(map(str.isdecimal, words)):
        return TextRow(0, " ".join(words))
    if len(words) == 1 and len(parts := words[0].split(":")) == 3 and len(parts[0]) == board.cells:
        puzzle, count, solution = parts
        problem = "" if count.isdecimal() else f"{count!r}: expected the number of solutions"
        return TextRow(0, puzzle, solution, problem=problem)
    at = next((place for place, word in enumerate(words[:2]) if len(word) == board.cells), None)
    if at is None:
        return None
    puzzle, *rest = words[at:]
    answer = rest.pop(0) if rest and len(rest[0]) == board.cells else ""
    rating = rest.pop(0) if rest and _NUMBER.fullmatch(rest[0]) and len(rest[0]) < board.cells // 2 else ""
    problem = ""
    if at and _NUMBER.fullmatch(words[0]) and not words[0].isalnum():
        problem = f"{words[0]!r} before the puzzle: a rating follows the puzzle and its solution"
    elif rest:
        size = f", which has {len(rest[0])} characters" if len(rest[0]) >= board.cells // 2 else ""
        problem = (
            f"the word {rest[0]!r}{size}: expected a puzzle, then its solution of {board.cells} characters if there is "
            "one, then its rating if there is one"
        )
    return TextRow(0, puzzle, answer, rating, problem)


def _is_near(head: list[str], board: Board) -> bool:
    """Return whether lines look like wrong puzzles, or puzzles of another size: each is then rejected as a row."""
    words = [line.rstrip("\r\n") for line in head] if board.spaces else " ".join(head).split()
    long = [
        word.lower() if not board.spaces else word for word in words if len(word) >= max(10, board.cells // 3)
    ]
    return any(sum(mark in board.marks for mark in word) >= 0.9 * len(word) for word in long)


def _section(line: str, shown: str, number: int) -> str | None:
    """Return the section that a line begins, None for other lines."""
    found = _SECTION.match(line.strip())
    if found is None:
        return None
    name = found[1].lower()
    if name not in (*_PUZZLE, *_ANSWER, *_NOT_READ):
        raise SourceError(
            f"{shown}:{number}: section [{found[1]}]: expected [Puzzle], [Solution] or [State]. Remove it, or rename it"
        )
    return name


def _a_line_each(lines: Iterator[str], shown: str, board: Board) -> Iterator[TextRow]:
    section, counted = "", -1
    last: TextRow | None = None
    for number, line in enumerate(lines, start=1):
        if not board.spaces and (found := _section(line, shown, number)) is not None:
            section = found
            continue
        if section in _NOT_READ or not (line.strip() if board.spaces else _words(line)):
            continue
        row = _puzzle_line(line, board)
        if row is None:
            row = TextRow(0, line.rstrip("\r\n") if board.spaces else _words(line)[0])
        elif not board.spaces and (first := _words(line)[0]) != row.question and _is_count(first):
            if int(first) <= counted:
                row = row._replace(
                    problem=f"{first!r} before the puzzle: a whole number there counts the puzzles, and the one before "
                    f"is {counted}; a rating follows the puzzle"
                )
            counted = int(first)
        if section in _ANSWER and last is not None:
            last = last._replace(answer=row.question, problem=last.problem or row.problem)
            continue
        if last is not None:
            yield last
        last = row._replace(line=number)
    if last is not None:
        yield last


def _is_count(word: str) -> bool:
    """Return whether an identifier is a number of the puzzle; longer ones are hexadecimal digits without a letter."""
    return word.isdecimal() and len(word) < 8


# Grids over several lines.


def _grid_row(line: str, board: Board) -> str | None:
    """Return the cells of a grid row, one character each, or numbers separated by spaces; None for other lines."""
    if board.spaces:
        cells = line.rstrip("\r\n")
        if not cells.strip():
            return cells if len(cells) == board.columns else None
        return cells if len(cells) <= board.columns and board.marks.issuperset(cells) else None
    line = line.split("#", 1)[0]
    words = line.translate(_DRAWN).split()
    if len(words) == board.columns and all(map(str.isdecimal, words)):
        return " ".join(words) + " "
    cells = "".join(words)
    if len(cells) != board.columns or not board.marks.issuperset(cells.lower()) or _RULE.match(line):
        return None
    return cells


def _is_title(line: str, board: Board) -> bool:
    """Return whether a line is text: it has a character that no row of a grid has."""
    text = line.strip() if board.spaces else "".join(line.translate(_DRAWN).lower().split())
    return not board.marks.issuperset(text)


def join_rows(lines: Sequence[str], rows: int, columns: int) -> str:
    """Return a grid whose spaces are cells as one line; free cells at the ends of its rows may be missing.

    Raises:
        ValueError: The grid is not of this size. Its longest row must be whole: else a smaller grid would be filled.
    """
    width = max(map(len, lines), default=0)
    if len(lines) != rows or width != columns:
        raise ValueError(
            f"{len(lines)} rows of up to {width} characters; expected {rows} of {columns} (--grid {len(lines)}x{width} "
            "reads grids of this size)"
        )
    return "".join(line.ljust(columns) for line in lines)


class _Block:
    """Rows of a grid that are complete one after another, up to a blank line or a title."""

    def __init__(self, shown: str, board: Board):
        self.shown, self.board = shown, board
        self.rows, self.first, self.grids, self.begin = list[str](), 0, 0, 0
        self.gaps = list[int]()
        """Numbers of rows before each blank line inside the grid (Sudoku: between bands)."""

    def add(self, number: int, cells: str) -> TextRow | None:
        """Add a row; return the grid that it completes."""
        self.first = self.first if self.rows else number
        self.begin = self.begin if self.rows or self.grids else number
        self.rows.append(cells)
        if len(self.rows) < self.board.rows:
            return None
        rows, gaps, self.rows, self.gaps = self.rows, self.gaps, [], []
        self.grids += 1
        if gaps and gaps != list(range(gaps[0], self.board.rows, gaps[0])):
            return TextRow(
                self.first, "", problem=f"blank lines after rows {gaps} of a grid of {self.board.rows}"
            )
        if not self.board.spaces:
            return TextRow(self.first, "".join(rows).strip(), firm=self.grids > 1)
        try:
            return TextRow(
                self.first, join_rows(rows, self.board.rows, self.board.columns), firm=self.grids > 1
            )
        except ValueError as error:
            return TextRow(self.first, "", problem=str(error), firm=self.grids > 1)

    def blank(self, number: int) -> TextRow | None:
        """End the block at a blank line, unless the line divides bands of a Sudoku; return a grid that is cut short."""
        if self.gaps or (self.rows and not self.board.spaces and self.board.rows % len(self.rows) == 0):
            self.gaps += [len(self.rows)] if len(self.rows) not in self.gaps else []
            return None
        return self.end(number, "the blank line")

    def end(self, number: int, what: str = "line") -> TextRow | None:
        """End the block; return a grid that is cut short."""
        count, self.rows, self.gaps, grids, self.grids = len(self.rows), [], [], self.grids, 0
        if not count:
            return None
        if grids:
            raise SourceError(
                f"{self.shown}:{self.begin}: {grids * self.board.rows + count} rows without a blank line between them; "
                f"expected a multiple of {self.board.rows}. Put a blank line between the grids, so that a missing or "
                "additional row is found"
            )
        problem = f"{count} lines of a grid; expected {self.board.rows} before {what} {number}"
        if self.board.spaces:
            problem += (
                f". A row of free cells has its {self.board.columns} spaces; --grid {count}x{self.board.columns} reads "
                "grids of this size"
            )
        return TextRow(self.first, "", problem=problem)


def _grids(lines: Iterator[str], shown: str, board: Board) -> Iterator[TextRow]:
    """Yield grids. A grid ends after its rows; a blank line or a title ends a block of grids.

    Ruled lines and `#` lines may be anywhere in a Sudoku. A section [Solution] has the answer to the grid before.
    """
    section, block = "", _Block(shown, board)
    last: TextRow | None = None
    number = 0
    for number, line in enumerate(lines, start=1):
        grid: TextRow | None = None
        own = section  # of the grid that this line may end
        if (cells := _grid_row(line, board)) is not None:
            grid = block.add(number, cells)
            if grid is not None and grid.firm and last is not None and own not in _NOT_READ:
                last = last._replace(firm=True)
        elif not line.strip():
            grid = block.blank(number)
        elif not board.spaces and (_RULE.match(line) or line.lstrip().startswith("#")):
            continue
        elif not board.spaces and (found := _section(line, shown, number)) is not None:
            grid, section = block.end(number), found
        elif _is_title(line, board):
            grid, section = block.end(number), ""
        else:
            text = line.strip("\r\n")
            hint = f"; --grid {board.rows}x{len(text)} reads rows of this length" if board.spaces else ""
            raise SourceError(
                f"{shown}:{number}: a line of {len(text)} characters, {text[:40]!r}; expected the {board.columns} "
                f"cells of a row, a blank line or a title{hint}"
            )
        if grid is None or own in _NOT_READ:
            continue
        if own in _ANSWER and last is not None and not grid.problem:
            last = last._replace(answer=grid.question)
            continue
        if last is not None:
            yield last
        last = grid
    if (grid := block.end(number + 1)) is not None and section not in _NOT_READ:
        if last is not None:
            yield last
        last = grid
    if last is not None:
        yield last


# JSON.


def _json(lines: Iterator[str], shown: str, board: Board, named: Mapping[str, str]) -> Iterator[TextRow]:
    """Yield the rows of JSON Lines, or of one JSON value."""
    lines = itertools.dropwhile(lambda line: not line.strip(), lines)
    first = next(lines)
    second = next((line for line in lines if line.strip()), None)
    try:
        value = parse_json(first)
    except ValueError:
        whole = _whole(itertools.chain([first], [] if second is None else [second], lines), shown)
        yield from _of_json(_parsed(whole, shown), shown, board, named)
        return
    if second is None:
        yield from _of_json(value, shown, board, named)
        return
    rest = itertools.chain([first, second], lines)
    for number, line in enumerate(rest, start=1):
        if line.strip():
            for row in _of_json(_parsed(line, f"{shown}:{number}"), f"{shown}:{number}", board, named):
                yield row._replace(line=number)


def _parsed(text: str, shown: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise SourceError(f"{shown}: is not JSON ({error})") from error


def _of_json(value: Any, shown: str, board: Board, named: Mapping[str, str]) -> Iterator[TextRow]:
    """Yield the rows of a value: a puzzle, an object with a puzzle or with columns of puzzles, or a list of these."""
    if (text := _as_text(value, board)) is not None:
        yield TextRow(1, text)
    elif isinstance(value, dict):
        yield from _of_object(cast(dict[str, Any], value), shown, board, named)
    elif isinstance(value, list):
        for number, item in enumerate(cast(list[Any], value), start=1):
            for row in _of_json(item, f"{shown}: item {number}", board, named):
                yield row._replace(line=number)
    else:
        raise SourceError(f"{shown}: got {json.dumps(value)[:40]} instead of a puzzle. {FORMS}")


def _of_object(
    value: dict[str, Any], shown: str, board: Board, named: Mapping[str, str]
) -> Iterator[TextRow]:
    value |= {name: inner for name in named.values() if (inner := value_inside(value, name)) is not None}
    names = list(value)
    at = find_columns(names, named, shown)
    if "question" not in at:
        lists = [item for item in value.values() if isinstance(item, list)]
        if len(lists) == 1 and not {"train", "test", "examples", "messages", "input", "grid"} & value.keys():
            yield from _of_json(lists[0], shown, board, named)
            return
        what = "a task of ARC, which is built by: trm-data build arc" if "train" in value else "no puzzle"
        if {"grid", "size"} <= value.keys():
            what = f"a puzzle of f-puzzles, which is not read (write its cells as text of {board.cells} characters)"
        if {"examples", "messages"} & value.keys():
            what = "a task of BARC, which is built by: trm-data build arc"
        missing = no_column(named.get("question", "question"), names)
        raise SourceError(
            f"{shown}: an object with {', '.join(names[:8])} is {what}; {missing} "
            f"(--columns question=NAME,answer=NAME names others). {FORMS}"
        )
    stated = {column: value[names[place]] for column, place in at.items()}
    question = _as_text(stated["question"], board)
    if question is not None:
        answer, rating = stated.get("answer"), stated.get("rating")
        text = "" if answer is None else _as_text(answer, board)
        problem = "" if text is not None else f"answer: got {json.dumps(answer)[:40]}, expected cells"
        yield TextRow(1, question, text or "", "" if rating is None else str(rating), problem)
        return
    columns = {column: items for column, items in stated.items() if isinstance(items, list)}
    if "question" not in columns or len({len(items) for items in columns.values()}) != 1:
        got, number = json.dumps(stated["question"])[:40], isinstance(stated["question"], int | float)
        advice = "A number has lost its leading zeros: read the column as text" if number else FORMS
        raise SourceError(
            f"{shown}: {names[at['question']]}: got {got}, neither cells nor a column. {advice}"
        )
    for number, items in enumerate(zip(*columns.values(), strict=True), start=1):
        record = {names[at[column]]: item for column, item in zip(columns, items, strict=True)}
        for row in _of_object(record, f"{shown}: item {number}", board, named):
            yield row._replace(line=number)


def value_inside(value: Any, name: str) -> Any:
    """Return the value with a dotted name, such as `metadata.puzzle`, of objects in objects; None if there is none."""
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = cast(dict[str, Any], value)[part]
    return value


def _as_text(value: Any, board: Board) -> str | None:
    """Return a JSON puzzle as text, from a text, numbers, or rows of either; None for other values."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    items = cast(list[Any], value)
    if all(type(item) is int for item in items):
        return json.dumps(items)
    if all(isinstance(item, list) for item in items):
        if all(item and all(type(cell) is int for cell in item) for item in items):
            grid = len(items) == board.rows and all(len(item) == board.columns for item in items)
            return json.dumps(items) if grid else None
        if len(items) == board.rows and all(all(isinstance(cell, str) for cell in item) for item in items):
            return "".join("".join(item) for item in items)
    if (
        all(isinstance(item, str) and len(item) == board.columns for item in items)
        and len(items) == board.rows
    ):
        return "".join(items)
    return None


# XML.


def _xml(text: str, shown: str) -> Iterator[TextRow]:
    """Yield the puzzles of OpenSudoku, `<game data="...">`. No entity is expanded: a document type is rejected."""
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise SourceError(f"{shown}: has a document type or entities, which are refused. Remove them")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise SourceError(f"{shown}: is not XML ({error})") from error
    found = [game.get("data") for game in root.iter() if game.tag.rpartition("}")[2] == "game"]
    games = [data for data in found if data is not None]
    if not games:
        raise SourceError(
            f"{shown}: XML with <{root.tag}> is not read; expected OpenSudoku's <game data=...>. {FORMS}"
        )
    for number, data in enumerate(games, start=1):
        yield TextRow(number, data)


# Tables.


def _table(source: LocalSource, named: Mapping[str, str]) -> Iterator[TextRow]:
    """Yield the rows of Parquet or npz files, whose cells are texts or numbers."""
    assert source.path is not None
    magic = find_magic(source.path)
    if magic == "parquet":
        yield from _parquet(source, named)
    elif magic == "zip":
        yield from _npz(source, named)
    else:
        raise SourceError(f"{source.shown}: is neither Parquet nor npz. {FORMS}")


def _columns_of_table(names: list[str], named: Mapping[str, str], shown: str) -> dict[str, str]:
    at = find_columns(names, named, shown)
    if "question" not in at:
        tokens = "; tokens are built by: trm-data build table --train FILE" if "inputs" in names else ""
        raise SourceError(
            f"{shown}: {no_column('question', names)}; --columns question=NAME,answer=NAME names others{tokens}"
        )
    return {column: names[place] for column, place in at.items()}


def _parquet(source: LocalSource, named: Mapping[str, str]) -> Iterator[TextRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert source.path is not None
    number = 0
    try:
        columns = _columns_of_table(pq.read_schema(source.path).names, named, source.shown)
        for batch in parquet_batches(source.path, list(dict.fromkeys(columns.values())), source.shown):
            rows = [batch.column(name).to_pylist() for name in columns.values()]
            for values in zip(*rows, strict=True):
                number += 1
                yield _stated(number, dict(zip(columns, values, strict=True)))
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise SourceError(f"{source.shown}: is not a Parquet file ({error})") from error


def _npz(source: LocalSource, named: Mapping[str, str]) -> Iterator[TextRow]:
    assert source.path is not None
    columns = _columns_of_table(names_in_npz(source.path, source.shown), named, source.shown)
    arrays = load_npz(source.path, tuple(columns.values()), source.shown, texts=True)
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(lengths) != 1:
        raise SourceError(
            f"{source.shown}: its arrays have {', '.join(map(str, sorted(lengths)))} rows; expected as many"
        )
    for row in range(lengths.pop()):
        values = {column: arrays[name][row] for column, name in columns.items()}
        plain = {column: np.asarray(value).tolist() for column, value in values.items()}
        yield _stated(row + 1, plain)


def _stated(number: int, values: Mapping[str, Any]) -> TextRow:
    """Return a table row with its cells as text, or as a JSON list of numbers."""

    def text(column: str) -> str:
        value = values.get(column)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return json.dumps(value) if isinstance(value, list) else "" if value is None else str(value)

    rating = values.get("rating")
    stated = "" if rating is None or rating != rating else str(rating)
    return TextRow(number, text("question"), text("answer"), stated)
