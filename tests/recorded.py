"""Small roots with trained and evaluated runs, recorded once in `tests/fixtures/recorded_roots.tar.xz`.

Tests of reports, SQL, the dashboard, comparison and packages use them instead of training. They include the weights of
one run at its last step, and no resume state. `python tests/recorded.py` records them again, which is needed when
`tests/test_recorded.py` reports that they are stale.

    evaluated  the dataset `small`, and the run of `tests.trm_train.test_loop.TINY` with one evaluation
    compared   a second run, of width 32, with one evaluation; add it to `evaluated`
    study      the runs of `tests.trm_eval.report.test_study`, evaluated
    voted      the dataset `arc`, and a run evaluated at both of its checkpoints
"""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import socket
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from trm_data.storage.root import Layout, resolve_root

ARCHIVE = Path(__file__).parent / "fixtures" / "recorded_roots.tar.xz"
VERSIONS = "versions.json"
LIMIT_BYTES = 500_000
WEIGHTS = "weights/12/"
LEFT_OUT = ("catalog.duckdb", "/logs/", "/cache/", "/.locks/", "/checkpoints/resume/", "/.identity")


@cache
def _contents() -> dict[str, bytes]:
    """Return every file of the archive by name."""
    with tarfile.open(ARCHIVE) as archive:
        files = {entry.name: archive.extractfile(entry) for entry in archive if entry.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def recorded_root(place: Path, *names: str) -> Layout:
    """Unpack the recorded roots with these names; a test with its own folder may change them."""
    for name, content in _contents().items():
        root, _, path = name.partition("/")
        if root in names:
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return resolve_root(place)


def recorded_versions() -> dict[str, Any]:
    """Return the formats and schemas of the recorded roots."""
    return json.loads(_contents()[VERSIONS])


def versions() -> dict[str, Any]:
    """Return the formats and schemas of this checkout."""
    from trm_data import manifest
    from trm_eval.identity import EVALUATION_VERSION
    from trm_eval.tables.schema import TABLES
    from trm_train.checkpoint import manager
    from trm_train.runs import record

    return {
        "manifest": manifest.FORMAT_VERSION,
        "checkpoint": manager.FORMAT_VERSION,
        "run record": record.FORMAT_VERSION,
        "evaluation": EVALUATION_VERSION,
        "tables": {name: [f"{field.name} {field.type}" for field in table] for name, table in TABLES.items()},
    }


def record(target: Path) -> None:
    """Build, train and evaluate; pack what tests read."""
    from tests.conftest import small_request
    from tests.trm_data.kinds.test_arc import request as arc_request
    from tests.trm_eval.report.test_study import train_study
    from tests.trm_eval.test_votes import AUG, CONFIG, arc_folder
    from tests.trm_train.test_loop import TINY, run
    from trm_data.building.flow import build_dataset
    from trm_eval.evaluation.flow import evaluate_run
    from trm_eval.identity import EvalRequest

    socket.gethostname = lambda: "host"
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        roots = {name: resolve_root(home / name) for name in ("evaluated", "compared", "study", "voted")}
        for name in ("evaluated", "compared", "study"):
            build_dataset(small_request(), roots[name], shard_examples=200)
        evaluate_run(roots["evaluated"], run(roots["evaluated"]).folder, EvalRequest())
        wider = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, hidden_size=32))
        evaluate_run(roots["compared"], run(roots["compared"], wider).folder, EvalRequest())
        train_study(roots["study"])
        build_dataset(arc_request(arc_folder(home / "arc"), aug=AUG, val_size=1), roots["voted"])
        voted = run(roots["voted"], CONFIG).folder
        for step in ("1", "2"):
            evaluate_run(roots["voted"], voted, EvalRequest(checkpoint=step, weights="raw"))
        for name in ("compared", "study"):
            shutil.rmtree(home / name / "datasets")
        shutil.copytree(home / "evaluated" / "datasets", home / "study" / "datasets")
        _pack(home, [*roots], target)
    print(f"{target}: {target.stat().st_size:,} bytes")


def _pack(home: Path, roots: list[str], target: Path) -> None:
    with tarfile.open(target, "w:xz", preset=9) as archive:
        _add(archive, VERSIONS, json.dumps(versions(), indent=1, sort_keys=True).encode())
        for path in sorted(path for root in roots for path in (home / root).rglob("*") if path.is_file()):
            name = path.relative_to(home).as_posix()
            unread = "/checkpoints/weights/" in name and not (
                name.startswith("evaluated/") and WEIGHTS in name
            )
            if unread or any(part in name for part in LEFT_OUT):
                continue
            # Orbax writes the folder's path into this file, but only checks that it exists.
            _add(archive, name, b"" if path.name == "commit_success.txt" else path.read_bytes())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    record(ARCHIVE)
