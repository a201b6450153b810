"""Source files: valid content, and the message of every kind of bad input."""

import dataclasses
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import run_here
from trm_data.cli import main
from trm_data.errors import SourceError, SpecError, without_credentials
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.source import encode_grid, read_puzzles
from trm_data.manifest import read_manifest
from trm_data.sources.base import SourceRef, fetch_source, parse_source
from trm_data.sources.columns import parse_columns
from trm_data.sources.rows import StatedRows
from trm_data.storage.root import resolve_root

# From ../shared/data/sudoku/exchange_diabolical_28_publicdomain.txt (public domain).
PUZZLE = "083020090000800100029300008000098700070000060006740000300006980002005000010030540"
OTHER = "200050006010000090600801003007090600000703000900080002100000005060902010003060200"


def read(path: Path, kind: str = "csv") -> tuple[StatedRows, list[tuple[int, str]]]:
    with fetch_source(parse_source(f"{kind}:{path}")) as source:
        rows, rejects = read_puzzles(source, 9)
    assert all(reject.file == str(path) for reject in rejects)
    return rows, [(reject.line, reject.reason) for reject in rejects]


@pytest.fixture
def csv_file(tmp_path: Path):
    def write(*lines: str, header: str = "source,question,answer,rating") -> Path:
        path = tmp_path / "puzzles.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write


def test_rows_come_with_line_numbers_and_what_they_state(csv_file) -> None:
    rows, rejects = read(csv_file(f"a,{PUZZLE},,", f"b,{OTHER},,7.5"))
    assert not rejects
    np.testing.assert_array_equal(rows.lines, [2, 3])
    assert not rows.answers.any()
    assert np.isnan(rows.ratings[0])
    assert rows.ratings[1] == 7.5
    assert rows.questions[0, 1] == 8


def test_columns_may_stand_in_any_order_and_be_missing(csv_file) -> None:
    rows, _ = read(csv_file(f"3,{PUZZLE}", header="rating,question"))
    assert rows.ratings[0] == 3


def test_text_files_have_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.txt"
    path.write_text(f"# a list\n\n{PUZZLE} # easy\n{OTHER}\n")
    rows, rejects = read(path, "txt")
    assert not rejects
    np.testing.assert_array_equal(rows.lines, [3, 4])


def test_cells_as_a_list_of_json(csv_file) -> None:
    cells = [0 if cell == "." else int(cell) for cell in PUZZLE]
    grid = [cells[start : start + 9] for start in range(0, 81, 9)]
    for stated in (cells, grid):
        rows, rejects = read(csv_file(f'a,"{stated}",,', f"b,{OTHER},,"))
        assert not rejects
        np.testing.assert_array_equal(rows.questions[0], cells)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"a,{PUZZLE[:-1]},,", "expected 81 characters, got 80"),
        (
            f"a,{PUZZLE[:36]},,",
            "expected 81 characters, got 36, as many as a grid of 2x3 boxes has (--box 2x3)",
        ),
        (f"a,{PUZZLE[:-1]}x,,", "character 'x' at position 81"),
        (f"a,{PUZZLE},{'1' * 80},", "answer: expected 81 characters, got 80"),
        (f"a,{PUZZLE},{'1' * 80}.,", "answer: a blank"),
        (f"a,{PUZZLE},,hard", "rating 'hard': expected a number"),
        (f"a,{PUZZLE},,-1", "rating '-1': expected a number of 0 or more"),
        (f'a,"{[0] * 80 + [10]}",,', "number 10 at position 81: expected 1 to 9, or 0 for a blank"),
        (f'a,{PUZZLE},"{[1] * 80 + [0]}",', "answer: a blank"),
    ],
)
def test_bad_rows_are_named_by_line_and_reason(csv_file, row: str, reason: str) -> None:
    rows, rejects = read(csv_file(f"a,{OTHER},,", row))
    assert len(rows) == 1
    assert rejects[0][0] == 3
    assert reason in rejects[0][1]


def test_an_exact_duplicate_names_the_first(csv_file) -> None:
    _, rejects = read(csv_file(f"a,{PUZZLE},,", f"b,{OTHER},,", f"c,{PUZZLE},,"))
    assert rejects == [(4, "the same puzzle as line 2")]


def test_a_missing_column_names_what_was_found(csv_file) -> None:
    with pytest.raises(SourceError, match=r"puzzles.csv:1: has no column 'question'; found source, clues"):
        read(csv_file(f"a,{PUZZLE}", header="source,clues"))


def test_an_empty_file_and_one_without_rows(tmp_path: Path, csv_file) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(SourceError, match="empty"):
        read(tmp_path / "empty.csv")
    with pytest.raises(SourceError, match="has no rows"):
        read(csv_file())


def test_a_name_does_not_say_what_is_compressed(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed.csv", tmp_path / "plain.csv.gz"
    packed.write_bytes(gzip.compress(f"question\n{PUZZLE}\n".encode()))
    plain.write_text("question\n")
    assert len(read(packed)[0]) == 1
    with pytest.raises(
        SourceError, match=r"plain.csv.gz: has the extension of a compressed file but is not compressed"
    ):
        read(plain)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(b"question\n\xff\xfe\x00\x81\n")
    with pytest.raises(SourceError, match="not UTF-8"):
        read(path)


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    import fsspec

    with fsspec.open("memory://puzzles/remote.csv", "wb") as file:
        file.write(f"question\n{PUZZLE}\n".encode())
    with fetch_source(parse_source("csv:memory://puzzles/remote.csv")) as source:
        rows, _ = read_puzzles(source, 9)
    assert len(rows) == 1
    assert source.spec.name == "remote.csv"


@pytest.mark.parametrize(
    "text", ["csv", "csv:", "generated:x", "xml:a", "", "hf:", "x" * 5000, "a\0b", "~nobody-of-this-name/a"]
)
def test_other_forms_of_sources_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="expected"):
        parse_source(text, "--test-source")


# Files from other programs.


@pytest.mark.parametrize(
    "content",
    [
        f"id;Puzzle;Solution\n1;{PUZZLE};\n",
        f"id\tQUIZZES\tsolutions\n1\t{PUZZLE}\t\n",
        f"question | rating\n{PUZZLE} | 3\n",
        f"question\n{PUZZLE.replace('0', '*')}\n",
        f"question\n{PUZZLE.replace('0', '_')}\n",
        f"question\n{PUZZLE.replace('0', '.')}\n",
    ],
)
def test_other_separators_names_and_blanks_are_the_same_puzzle(tmp_path: Path, content: str) -> None:
    (tmp_path / "plain.csv").write_text(f"question\n{PUZZLE}\n")
    (tmp_path / "other.csv").write_text(content)
    plain, other = (read(tmp_path / name) for name in ("plain.csv", "other.csv"))
    assert other[1] == plain[1] == []
    assert (other[0].questions == plain[0].questions).all()


def test_the_name_of_the_published_files_counts_before_others(csv_file) -> None:
    rows, rejects = read(csv_file(f"nonsense,{PUZZLE}", header="puzzle,question"))
    assert (len(rows), rejects) == (1, [])


def test_columns_are_named_by_the_user_and_stand_in_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"question,Clues,level\nnot this,{PUZZLE},4.5\n")
    ref = dataclasses.replace(parse_source(f"csv:{path}"), columns="question=clues,rating=level")
    with fetch_source(ref) as source:
        rows, rejects = read_puzzles(source, 9)
    assert (len(rows), rejects, rows.ratings.tolist()) == (1, [], [4.5])
    assert source.spec.columns == "question=clues,rating=level"
    with (
        fetch_source(dataclasses.replace(ref, columns="answer=end")) as source,
        pytest.raises(SourceError, match=r"mine.csv:1: has no column 'end' \(found question, Clues, level\)"),
    ):
        read_puzzles(source, 9)


def test_what_is_nearly_a_column_and_what_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"question,solution\n{PUZZLE},\n")
    ref = dataclasses.replace(parse_source(f"csv:{path}"), columns="answer=solutoin")
    with (
        fetch_source(ref) as source,
        pytest.raises(
            SourceError, match=r"has no column 'solutoin'; did you mean 'solution'\? \(found question"
        ),
    ):
        read_puzzles(source, 9)
    path.write_text(f"{PUZZLE},{PUZZLE}\n")
    with (
        fetch_source(parse_source(f"csv:{path}")) as source,
        pytest.raises(
            SourceError, match=r"mine.csv:1: is a puzzle, expected the names of the columns; put a line"
        ),
    ):
        read_puzzles(source, 9)


def test_columns_the_other_way_round_a_folder_and_an_address(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"\(clues=question the other way round: question=clues\)"):
        parse_columns("clues=question")
    with (
        pytest.raises(SourceError, match=r"is a folder, expected a file"),
        fetch_source(SourceRef("csv", str(tmp_path))),
    ):
        pass
    with pytest.raises(SpecError, match=r"ambiguous; name the type, such as csv:https://example\.org/x\.csv"):
        parse_source("https://example.org/x.csv")


def test_answers_of_a_named_column_are_those_that_are_stored(tmp_path: Path) -> None:
    puzzles, answers = generate(0, 1, 0, 3, 3, 3)
    rows = [f"{encode_grid(one)},{encode_grid(other)}" for one, other in zip(puzzles, answers, strict=True)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["start,end", *rows]))
    ref = dataclasses.replace(parse_source(f"csv:{path}"), columns="question=start,answer=end")
    with fetch_source(ref) as source:
        read, rejects = read_puzzles(source, 9)
    assert (rejects, np.array_equal(read.answers, answers)) == ([], True)


@pytest.mark.parametrize("text", ["question", "question=", "clues=question", "question=a,question=b"])
def test_columns_that_are_none(text: str) -> None:
    with pytest.raises(
        SpecError, match=r"--columns .*: one or several of question=NAME, answer=NAME, rating=NAME"
    ):
        parse_columns(text)


NUMBERS = ("7", "2.5", ".55", "1.5e+00", "0", "-0")


@pytest.mark.parametrize("between", [" ", "\t", ",", ";", " ; ", "  "])
@pytest.mark.parametrize("form", ["P", "P r", "P S", "P S r", "id P", "id P S r", "n P r", "P r  # 9"])
def test_the_words_of_a_line(tmp_path: Path, form: str, between: str) -> None:
    answers = [encode_grid(grid) for grid in generate(0, 0, 0, 6, 3, 3)[1]]
    lines: list[str] = []
    for number, (answer, rating) in enumerate(zip(answers, NUMBERS, strict=True)):
        words = {"P": f"..{answer[2:]}", "S": answer, "r": rating, "n": str(number), "id": f"a{number}"}
        lines.append(between.join(words.get(word, word) for word in form.split(" ")))
    path = tmp_path / "puzzles.txt"
    path.write_text("\n".join(lines) + "\n")
    with fetch_source(parse_source(f"txt:{path}")) as source:
        rows, rejects = read_puzzles(source, 9)
    assert rejects == []
    assert ["".join(map(str, row))[2:] for row in rows.questions.tolist()] == [text[2:] for text in answers]
    assert rows.lines.tolist() == [1, 2, 3, 4, 5, 6]
    if "S" in form:
        assert ["".join(map(str, row)) for row in rows.answers.tolist()] == answers
    else:
        assert not rows.answers.any()
    if "r" in form:
        np.testing.assert_allclose(rows.ratings, [float(each) for each in NUMBERS], rtol=1e-7)
        assert not np.signbit(rows.ratings).any()
    else:
        assert np.isnan(rows.ratings).all()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("P found by somebody", "the word 'found'"),
        ("P ED=1.5/1.2/1.2", "the word 'ED=1.5/1.2/1.2'"),
        ("P=S", "expected 81 characters, got 163"),
        ("P S 3 4", "the word '4'"),
        ("P;1.5;GP;H0", "the word 'GP'"),
        ("P -3", "rating '-3'"),
        ("P 1e39", "rating '1e39'"),
        ("1.5 P", "'1.5' before the puzzle"),
        ("S", "has no blank cell"),
        ("P:many:S", "'many': expected the number of solutions"),
    ],
)
def test_a_word_without_meaning_is_named(tmp_path: Path, line: str, reason: str) -> None:
    """Of two lines: the first one is `7 PUZZLE`."""
    solution = encode_grid(generate(0, 0, 0, 1, 3, 3)[1][0])
    words = {"P": f"..{solution[2:]}", "S": solution, "T": solution[:80]}
    path = tmp_path / "puzzles.txt"
    path.write_text(f"7 {PUZZLE}\n" + re.sub(r"\b[PST]\b", lambda match: words[match[0]], line) + "\n")
    with fetch_source(parse_source(f"txt:{path}")) as source:
        rows, rejects = read_puzzles(source, 9)
    assert rows.lines.tolist() == [1]
    assert [reject.line for reject in rejects] == [2]
    assert reason in rejects[0].reason


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", "x", "csv"),
        ("a.tsv", "x", "csv"),
        ("b.txt", "puzzle,solution\n", "csv"),
        ("a.parquet", "x", "table"),
        ("a", f"id;puzzle\n1;{PUZZLE}\n", "csv"),
        ("a.data", f"{PUZZLE}\n", "txt"),
        ("mazes.data", "maze|solution\n", "csv"),
    ],
)
def test_a_path_alone_is_guessed_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: str, kind: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert parse_source(str(path)).kind == kind
    assert f"--source {path}: is read as {kind}:{path}" in caplog.text
    with pytest.raises(SpecError, match="expected"):
        parse_source(str(path), allowed=("generated",))


def test_a_path_with_named_columns_has_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_text(f"clues;answer\n{PUZZLE};\n")
    assert parse_source(str(path)).kind == "txt"
    assert parse_source(str(path), columns="question=clues").kind == "csv"


def test_a_build_of_a_file_says_that_nothing_is_held_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mine.csv"
    puzzles, _ = generate(5, 0, 0, 4, 2, 3)
    path.write_text("clues\n" + "".join(f"{encode_grid(puzzle)}\n" for puzzle in puzzles))
    words = f"build sudoku --box 2x3 --source {path} --columns question=clues --size 3".split()
    done = run_here(main, *words, "--name", "mine", "--quiet", "--root", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"--source {path}: is read as csv:{path}" in caplog.text
    assert "nothing is held out; --val-size N and --test-size N" in caplog.text
    card = (tmp_path / "datasets" / "mine" / "README.md").read_text()
    assert "--source csv:mine.csv --columns question=clues" in card
    assert "Cite" not in card  # not the puzzles of a publication
    caplog.clear()
    held = run_here(main, *words, "--test-size", "1", "--name", "held", "--quiet", "--root", str(tmp_path))
    assert held.returncode == 0
    assert "held out" not in caplog.text
    wrong = run_here(main, "build", "sudoku", "--columns", "question=x", "--root", str(tmp_path))
    assert (wrong.returncode, "--columns question=x: only for files" in wrong.stderr) == (2, True)


def test_arrays_and_tables_say_by_which_command_they_are_built(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.npz"
    np.savez(path, inputs=np.zeros((1, 81), np.uint8))
    with pytest.raises(
        SpecError, match=r"are built by: trm-data build table --train .*puzzles\.npz; expected"
    ):
        parse_source(str(path), allowed=("generated", "csv", "txt", "hf"), columns="question=inputs")


# 16x16 with 0 as a digit, from ../shared/cases/46-hex1 (made for tests).
HEX = (
    "1.B85069A7243ECD7.4AFB.1...30..9DC3.2..76950B8F19506.3E.81FB4.272E7.A1BF...D.08558.0..3CBFA174E2.A..89054.E7D.6..6D."
    "E7420.8.1BAFA4F1B598...2..0660C.327E98B5F14A8B590..61A.F2.3EE3274.1AD60.59.83.E..AF.C.96851B4...185B23D.6C9..96C..23"
    ".B18.F.4B1.5.6..F47AE.D3"
)


def read_hex(path: Path, symbols: str = "") -> StatedRows:
    ref = dataclasses.replace(parse_source(f"txt:{path}"), symbols=symbols)
    with fetch_source(ref) as source:
        rows, rejects = read_puzzles(source, 16)
    assert rejects == []
    return rows


def test_no_clue_is_lost_where_zero_is_a_digit(tmp_path: Path) -> None:
    path = tmp_path / "hex.txt"
    path.write_text(f"{HEX}\n")
    rows = read_hex(path)
    assert np.count_nonzero(rows.questions) == 190
    assert rows.questions[0, :4].tolist() == [2, 0, 12, 9]
    letters = HEX.translate(str.maketrans("0123456789ABCDEF", "ABCDEFGHIJKLMNOP"))
    path.write_text(f"{letters}\n")
    np.testing.assert_array_equal(read_hex(path).questions, rows.questions)
    usual = HEX.translate(str.maketrans("0123456789ABCDEF", "123456789ABCDEFG"))
    path.write_text(f"{usual}\n")
    np.testing.assert_array_equal(read_hex(path).questions, rows.questions)


def test_symbols_that_are_named_count(tmp_path: Path) -> None:
    path = tmp_path / "hex.txt"
    path.write_text(f"{HEX}\n")
    assert np.count_nonzero(read_hex(path, "123456789ABCDEFG").questions) == 178
    path.write_text(HEX.replace(".", "0").translate(str.maketrans("123456789ABCDEF", "αβγδεζηθικλμνξο")))
    assert read_hex(path, "παβγδεζηθικλμνξο").questions[0, :4].tolist() == [2, 0, 12, 9]
    with pytest.raises(SourceError, match=r"hex.txt: --symbols '0123' has 4 characters"):
        read_hex(path, "0123")


def test_what_zero_is_is_refused_where_it_cannot_be_told(tmp_path: Path) -> None:
    path = tmp_path / "mixed.txt"
    path.write_text(f"{PUZZLE.replace('9', '.')}\n")
    with pytest.raises(SourceError, match=r"mixed.txt: .*--symbols 123456789 or --symbols 012345678"):
        read(path, "txt")
    path.write_text(f"{PUZZLE.replace('7', '.')}\n")
    rows, _ = read(path, "txt")
    assert np.count_nonzero(rows.questions) == len(PUZZLE) - PUZZLE.count("0") - PUZZLE.count("7")


def test_symbols_stand_in_the_specification_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(f"{PUZZLE}\n{OTHER}\n".translate(str.maketrans("123456789", "abcdefghi")))
    root = str(tmp_path / "root")
    options = ("--source", f"txt:{path}", "--symbols", "abcdefghi", "--size", "2", "--root", root)
    assert run_here(main, "build", "sudoku", *options).returncode == 0
    spec = read_manifest(resolve_root(root), "sudoku-mine-2-aug-0").spec
    assert "--symbols abcdefghi" in spec.options.build_command("mine", spec)
    done = run_here(main, "build", "sudoku", "--symbols", "abcdefghi", "--size", "2", "--root", root)
    assert (done.returncode, "--symbols abcdefghi: only for files" in done.stderr) == (2, True)


class Told:
    """Progress that records its calls."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.done: list[int] = []

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.stages.append(stage)

    def advance(self, count: int) -> None:
        self.done.append(count)


def test_rows_of_several_batches_are_those_of_one(csv_file, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = encode_grid(generate(0, 0, 0, 1, 3, 3)[1][0])
    easy = f".{answer[1:]}"
    multi_line = f'"{OTHER[:40]}\n{OTHER[40:]}"'
    path = csv_file(
        f"a,{PUZZLE},,1",
        f"a,{PUZZLE.replace('8', 'x', 1)},,1",
        f"a,{PUZZLE},,2",
        f"a,{multi_line},,",
        f"a,{OTHER.replace('0', '.')},,7",
        f"a,{easy},{answer},many",
        "",
        f"a,{easy},{answer[:80]}.,3",
        f"a,{easy},{answer},3,,",
        f"a,' {easy},{answer}",
        f"a,{easy},{answer},3,too many",
        f"a,{answer},,",
    )
    whole = read(path)
    monkeypatch.setattr("trm_data.sources.rows.ROWS_AT_ONCE", 2)
    told = Told()
    with fetch_source(parse_source(f"csv:{path}")) as source:
        rows, rejects = read_puzzles(source, 9, progress=told)
    assert rows.lines.tolist() == [2, 6, 11]
    assert [reject.line for reject in rejects] == [3, 4, 7, 8, 10, 12, 13, 14]
    assert rejects[1].reason.endswith("line 2")
    assert rejects[3].reason.startswith("rating 'many'")
    assert rejects[4].reason.startswith("answer: a blank")
    assert rejects[6].reason.startswith("5 fields; expected 4")
    assert rejects[7].reason.startswith("has no blank cell")
    assert whole[1] == [(reject.line, reject.reason) for reject in rejects]
    for field in dataclasses.fields(StatedRows):
        np.testing.assert_array_equal(getattr(whole[0], field.name), getattr(rows, field.name))
    assert told.stages == ["read puzzles.csv"]
    assert sum(told.done) == 11


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:s3cret@host/p.csv", "https://host/p.csv"),
        ("see https://a:s3@cret@host/x and ftp://me:s3cret@host/y", "see https://host/x and ftp://me@host/y"),
        ("git@github.com:me/trm.git", "git@github.com:me/trm.git"),
        ("https://host/p.csv?token=s3cret", "https://host/p.csv?token=..."),
        ("https://h/p?v=1&X-Amz-Signature=s3cret&n=2", "https://h/p?v=1&X-Amz-Signature=...&n=2"),
        ("https://h/p?sv=1&sig=s3%2Bcret%3D for url", "https://h/p?sv=1&sig=... for url"),
        ("Authorization: Bearer s3c.re-t_== was refused", "Authorization: Bearer ... was refused"),
        ("https://h/p?size=81&monkey=1", "https://h/p?size=81&monkey=1"),
    ],
)
def test_users_passwords_and_tokens_of_urls_are_not_shown(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_a_folder_as_a_file_of_puzzles_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"is a folder; name a file in it"):
        parse_source(str(tmp_path), allowed=("csv", "txt"))
    with pytest.raises(SpecError, match=r"unknown file type"):
        parse_source(str(tmp_path), allowed=("repo",))


@pytest.mark.parametrize("source", ["csv:", "csvv:", ""])
def test_a_source_that_cannot_be_fetched_is_named_without_its_token(source: str, tmp_path: Path) -> None:
    url = f"{source}http://user:s3cret@127.0.0.1:9/p.csv?token=s3cret"
    done = run_here(main, "build", "sudoku", "--source", url, "--size", "1", "--root", str(tmp_path))
    assert done.returncode == 2
    assert "s3cret" not in done.stdout + done.stderr
    assert "127.0.0.1" in done.stderr
