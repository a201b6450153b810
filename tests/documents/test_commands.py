"""Each program parses every command of the documents; commands that can run do, as written and in order."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trm_eval
from tests.conftest import PROJECT, run_here
from tests.documents.blocks import Block, Line, Marker, read_blocks
from tests.documents.reading import MAINS, statements, why_unreadable
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.source import encode_grid
from trm_data.storage.root import resolve_root
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.registry import add_experiment, load_experiments
from trm_train.runs.record import find_run

DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "examples").rglob("README.md")),
]
BLOCKS = [block for document in DOCUMENTS for block in read_blocks(document) if block.lines]
GUIDES = [PROJECT / "README.md", *(PROJECT / "docs" / f"{name}.md" for name in ("quickstart", "datasets"))]
GUIDES += [PROJECT / "docs" / f"{name}.md" for name in ("training", "evaluation")]
"""What a newcomer reads, in order."""
SHORT = (
    "--total-steps 6 --optim.lr-warmup-steps 2 --model.h-cycles 1 --model.l-cycles 1 --model.halt-max-steps 2 "
    "--data.global-batch-size 8 --execution.checkpoint-every 3 --execution.validate-every 6 --tracking none"
)
FENCES = {"", "sh", "bash", "python", "text", "sql", "json", "toml", "bibtex", "yaml"}
"""Allowed languages of blocks: commands are in `sh` blocks, or in transcripts after a prompt; `bash` is a whole
script."""
RUN_NAME = re.compile(r"\b(\w+)-[0-9a-f]{8}-s0\b")
BIN = Path(sys.executable).parent


def of(block: Block) -> str:
    """Return the test id of a block."""
    return f"{block.document.name}:{block.number}"


def lines_of(block: Block, *, slow: bool) -> list[Line]:
    """Return the lines of a block that a test runs, with or without the slow ones."""
    run = [line for line in block.lines if block.language == "sh" and not line.marker.reason]
    run = [line for line in run if "checkout" not in line.marker.hows]
    return run if slow else [line for line in run if "slow" not in line.marker.hows]


def is_slow(block: Block) -> bool:
    """Return whether a block has lines that take more than seconds, shortened or as written."""
    return any({"slow", "dry-run-first"} & line.marker.hows for line in lines_of(block, slow=True))


def is_of_checkout(block: Block) -> bool:
    """Return whether a block runs in a copy of the checkout."""
    return any("checkout" in line.marker.hows for line in block.lines)


@dataclass
class Reader:
    """Types the commands of a document, one line after another.

    Attributes:
        folder: Current folder of the reader.
        monkeypatch: Restores folder and variables at the end.
        patient: Whether slow lines run as written.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    patient: bool = False

    def type(self, line: Line) -> subprocess.CompletedProcess[str]:
        """Run a line as its marker says; a failure ends the test and shows the output."""
        text = self.as_run(line)
        done = subprocess.CompletedProcess[str]([], 0, "", "")
        for words in statements(text):
            if words[0] == "export":
                name, _, value = words[1].partition("=")
                self.monkeypatch.setenv(name, value)
            elif words[0] in MAINS:
                done = run_here(MAINS[words[0]], *words[1:])
            else:
                done = subprocess.run(words, capture_output=True, text=True, timeout=600)
            said = f"line {line.number}: {text}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            assert done.returncode == 0, said
        return done

    def as_run(self, line: Line) -> str:
        """Return a line with the marker's replacements and additions."""
        text = line.text
        for before, after in line.marker.instead:
            text = text.replace(before, after)
        text = RUN_NAME.sub(lambda found: run_of(found[1], self.folder) or found[0], text)
        if "dry-run" in line.marker.hows or ("dry-run-first" in line.marker.hows and not self.patient):
            text += " --dry-run"
        if "short" in line.marker.hows:
            text += f" {SHORT}"
        return text


def run_of(experiment: str, folder: Path) -> str | None:
    """Return the run of an experiment under a folder: its name differs from the document, as the run is shorter."""
    try:
        return find_run(resolve_root(folder / "trm"), experiment).name
    except ConfigError:
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """A folder in which the quickstart was run, shortened; it also has files that documents name.

    The dataset of the demo has fewer test puzzles; the runs have few steps and are tested.
    """
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as monkeypatch:
        reader = reader_in(folder, monkeypatch)
        for text in (
            "trm-data build sudoku --box 2x3 --size 500 --aug 1000 --val-size 20 --test-size 40",
            "trm-data build sudoku --box 2x2 --size 5 --aug 2 --val-size 0 --test-size 5 --name small",
            "trm-data export small --format npy --out published",
            *(f"trm-train run {name} {SHORT}" for name in ("quickstart", "quickstart_032", "quickstart_064")),
            *(f"trm-eval run {name}" for name in ("quickstart", "quickstart_032", "quickstart_064")),
        ):
            reader.type(Line(text, 0, Marker()))
        write_tables(folder)
        yield folder


def reader_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return a reader in a folder, with its own root there, the commands on the path and an empty stdin."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TRM_ROOT", raising=False)
    monkeypatch.setenv("PATH", str(BIN), prepend=os.pathsep)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Reader(folder, monkeypatch)


def write_tables(folder: Path) -> None:
    """Write tables of own puzzles, as npz and Parquet, and a list of Sudoku puzzles."""
    puzzles, answers = generate(0, 1, 0, 520, 3, 3)
    pairs = [f"{encode_grid(one)},{encode_grid(other)}" for one, other in zip(puzzles, answers, strict=True)]
    (folder / "mine.csv").write_text("\n".join(["clues,solved", *pairs]))
    draws = np.random.default_rng(0)
    for name, count in (("train", 700), ("test", 20), ("puzzles", 50)):
        inputs = draws.integers(1, 7, (count, 6, 6), np.uint8)
        np.savez(folder / f"{name}.npz", inputs=inputs, labels=inputs)
        rows = inputs.reshape(count, 6, 6).tolist()
        pl.DataFrame({"inputs": rows, "labels": rows}).write_parquet(folder / f"{name}.parquet")


def tracked_files() -> list[str]:
    """Return the tracked files of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]


def bare(folder: Path) -> dict[str, str]:
    """Return the environment of a shell with `uv` and without our commands; tools are installed under `folder`."""
    uv = shutil.which("uv") or shutil.which("uv", path=PROJECT / ".tools" / "bin")
    if uv is None:
        pytest.skip("needs uv, which `make setup` leaves in .tools/bin")
    (folder / "bin").mkdir()
    (folder / "bin" / "uv").symlink_to(uv)
    ours = (str(BIN), str(Path(uv).parent))
    path = [place for place in os.environ["PATH"].split(os.pathsep) if place not in ours]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "TRM_"))
    }
    tools = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    return {**kept, **tools, "PATH": os.pathsep.join([str(folder / "bin"), *path])}


@pytest.fixture
def reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    return reader_in(folder, monkeypatch)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_command_hides_in_a_block_of_another_name(document: Path) -> None:
    assert {block.language for block in read_blocks(document)} <= FENCES


@pytest.mark.parametrize("block", BLOCKS, ids=of)
def test_commands_are_read_by_their_programs(block: Block, nqueens: None) -> None:
    for line in block.lines:
        text = line.text
        for before, after in line.marker.instead:
            text = text.replace(before, after)
        for words in statements(text):
            where = f"{block.document}:{line.number}: {line.text}"
            if words[0] in MAINS:
                assert not (said := why_unreadable(words)), f"{where}\n{said}"
            elif words[0] == "make":
                made = subprocess.run(["make", "-n", *words[1:]], cwd=PROJECT, capture_output=True, text=True)
                assert made.returncode == 0, f"{where}\n{made.stderr}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if lines_of(block, slow=False)], ids=of)
def test_blocks_run_as_written(block: Block, nqueens: None, reader: Reader) -> None:
    for line in lines_of(block, slow=False):
        reader.type(line)


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if is_slow(block)], ids=of)
def test_blocks_with_slow_lines_run_as_written(block: Block, reader: Reader) -> None:
    reader.patient = True
    (reader.folder / "results.duckdb").unlink(
        missing_ok=True
    )  # from its quick lines, as `out`; a second is refused
    shutil.rmtree(reader.folder / "out", ignore_errors=True)
    for line in lines_of(block, slow=True):
        reader.type(line)


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if is_of_checkout(block)], ids=of)
def test_blocks_that_install_run_as_written(block: Block, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in tracked_files():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, checkout / name)
    script = "\n".join(line.text for line in block.lines)
    done = subprocess.run(
        ["sh", "-ex"],
        input=script,
        cwd=checkout,
        env=bare(tmp_path),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "quickstart" in done.stdout or "nqueens" in done.stdout


@pytest.fixture
def quickstarts_of_20_steps() -> Generator[None, None, None]:
    """Shorten the quickstart and its variants of width; their runs follow their experiments otherwise."""

    def short(config: RunConfig) -> RunConfig:
        return dataclasses.replace(
            config,
            data=dataclasses.replace(config.data, global_batch_size=8),
            model=dataclasses.replace(config.model, h_cycles=1, l_cycles=1, halt_max_steps=2),
            optim=dataclasses.replace(config.optim, lr_warmup_steps=2),
            total_steps=20,
            execution=dataclasses.replace(config.execution, checkpoint_every=10, validate_every=20),
        )

    ours = [item for name, item in load_experiments().items() if name.startswith("quickstart")]
    for item in ours:
        shorter = partial(lambda item, setting: short(item.configure(setting)), item)
        add_experiment(dataclasses.replace(item, configure=shorter))
    yield
    for item in ours:
        add_experiment(item)


def test_the_guides_can_be_typed_from_top_to_bottom_with_their_variants_trained(
    nqueens: None, quickstarts_of_20_steps: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run every quick line, transcripts too; the runs of the quickstart are trained where their block says so."""
    reader = reader_in(tmp_path, monkeypatch)
    write_tables(tmp_path)
    trained: list[str] = []
    tested = 0
    for text in (
        "trm-data build sudoku --box 2x2 --size 5 --aug 2 --val-size 0 --test-size 5 --name small",
        "trm-data export small --format npy --out published",
    ):
        reader.type(Line(text, 0, Marker()))
    for block in [block for guide in GUIDES for block in read_blocks(guide)]:
        for line in block.lines:
            hows = line.marker.hows
            if line.text.startswith("trm-train run quickstart") and "--dry-run" not in line.text:
                line = dataclasses.replace(line, marker=Marker())
                trained.append(line.text)
            elif line.marker.reason or {"slow", "checkout"} & hows:
                continue
            if "quickstart_064-" in line.text:
                for name in ("quickstart_032", "quickstart_064"):
                    for text in (f"trm-train run {name}", f"trm-eval run {name}"):
                        reader.type(Line(text, 0, Marker()))
            # After 20 steps no puzzle that needs guesses is solved.
            line = dataclasses.replace(line, text=line.text.replace("--which guessing", "--which wrong"))
            reader.type(line)
            tested += len(trained) > 4 and line.text.startswith("trm-eval") and "quickstart" in line.text
    assert len(trained) == 6  # the quickstart in two transcripts and in a block, and three variants
    assert tested >= 8
    runs = trm_eval.sql("SELECT differs, step FROM runs WHERE experiment = 'quickstart'", tmp_path / "trm")
    differs = {re.sub(r"weights=\w+", "weights=DIGEST", text) for text in dict(runs.rows())}
    assert differs == {"", "optim.lr=0.0003, seed=1", "optim.name=adamw", "seed=1, initial.weights=DIGEST"}
    assert {step for _, step in runs.rows()} == {20}


def test_python_of_the_guides_runs(
    quickstarts_of_20_steps: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run with fewer mazes, and a local root instead of a bucket; shapes in comments must be right."""
    reader = reader_in(tmp_path, monkeypatch)
    for text in (
        "trm-data build sudoku --size 500 --aug 1000",
        "trm-data build maze --grid 30x30 --size 12 --aug 7 --val-size 0 --test-size 2 --min-path 20 --name mazes",
    ):
        reader.type(Line(text, 0, Marker()))
    blocks = [block.text for guide in GUIDES for block in read_blocks(guide) if block.language == "python"]
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for number, text in enumerate(blocks):
        text = text.replace("maze-30x30-generated-1000-aug-7-rule", "mazes").replace("gs://bucket/trm", "trm")
        text = text.replace("val_size=200, test_size=1000", "val_size=20, test_size=40")
        script = tmp_path / f"block_{number}.py"
        script.write_text(text)
        names = runpy.run_path(str(script), names, "__main__")
        if "data = trm_data.build_dataset" in text:
            reader.type(Line("trm-eval run quickstart --traces 2", 0, Marker()))
    batch = names["batch"]
    assert (batch["inputs"].shape, batch["inputs"].dtype) == ((768, 900), np.uint8)
    assert [int((batch["tasks"] == task).sum()) for task in (0, 1)] == [576, 192]


def headings(text: str) -> list[list[str]]:
    """Return the columns of each table in a text: the words above a rule."""
    lines = text.splitlines()
    return [re.split(r" {2,}", above.strip()) for above, rule in pairwise(lines) if rule.startswith(" ──")]


def test_transcripts_have_the_columns_that_commands_print(reader: Reader) -> None:
    compared = 0
    for block in [block for guide in GUIDES for block in read_blocks(guide)]:
        shown = [part.partition("\n") for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]]
        for line, (_, _, answer) in zip(block.lines, shown, strict=False):
            if headings(answer):
                assert headings(reader.type(line).stdout) == headings(answer), line.text
                compared += len(headings(answer))
    assert compared == 6


def test_tables_below_commands_have_the_columns_that_they_print(reader: Reader) -> None:
    compared = 0
    for block, below in [pair for guide in GUIDES for pair in pairwise(read_blocks(guide))]:
        if lines_of(block, slow=False) and below.language == "" and headings(below.text):
            lines = lines_of(block, slow=False)
            printed = [columns for line in lines for columns in headings(reader.type(line).stdout)]
            assert headings(below.text)[0] in printed, below.text
            compared += 1
    assert compared == 2
