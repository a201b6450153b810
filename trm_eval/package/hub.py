"""Packages on the Hugging Face hub (the extra `hf`, `$HF_ENDPOINT`), and the files of results that the hub reads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from trm_data.errors import SourceError, needs_extra, without_credentials
from trm_data.sources.hub import check_room
from trm_data.storage.atomic import json_bytes
from trm_eval.errors import PackageError
from trm_eval.package.contents import CARD, LARGEST_BYTES, PACKAGE_FILE, parse_package

PREFIX = "hf:"
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,255}")


def check_repository(name: str) -> str:
    """Return a repository name; raise PackageError unless it is a valid `OWNER/NAME`."""
    if not REPOSITORY.fullmatch(name) or ".." in name or "--" in name:
        raise PackageError(
            f"{name!r}: expected OWNER/NAME, a repository of the Hugging Face hub, of letters, digits and ._-"
        )
    return name


def push_package(folder: Path, repository: str, *, private: bool) -> str:
    """Commit a package to a model repository, which is created if missing; return the commit."""
    check_repository(repository)
    with _of_the_hub(repository, "log in with `hf auth login` or $HF_TOKEN, and push again"):
        from huggingface_hub import HfApi

        names = [CARD, PACKAGE_FILE, *parse_package((folder / PACKAGE_FILE).read_bytes(), str(folder)).files]
        names.append(f"{FOLDER}/*.yaml")
        api = HfApi()
        api.create_repo(repository, repo_type="model", private=private, exist_ok=True)
        with warnings.catch_warnings():  # it is intended that the results are not a dataset
            warnings.filterwarnings(
                "ignore", "It seems that you are about to commit a data file", UserWarning
            )
            done = api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                repo_type="model",
                allow_patterns=names,
                commit_message="trm-eval export",
            )
    return str(done.oid)


def fetch_package(reference: str) -> tuple[Path, str]:
    """Fetch a package from the hub or its local cache; only files that a package can have are downloaded.

    Args:
        reference: `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.

    Returns:
        Its folder, not yet verified, and its commit.
    """
    name, _, revision = reference.removeprefix(PREFIX).partition("@")
    repository = check_repository(name)
    if revision and (not REVISION.fullmatch(revision) or ".." in revision):
        raise PackageError(f"{reference}: expected a branch, tag or commit behind @, got {revision!r}")
    with _of_the_hub(repository, "without a network, copy the package and import its folder"):
        from huggingface_hub import HfApi, hf_hub_download

        info = HfApi().model_info(repository, revision=revision or None, files_metadata=True)
        commit = info.sha or revision
        sizes = {file.rfilename: file.size for file in info.siblings or ()}
        for file in (PACKAGE_FILE, CARD):
            if (sizes.get(file) or 0) > LARGEST_BYTES:
                raise PackageError(
                    f"{reference}: {file} has {sizes[file]:,} bytes; expected up to {LARGEST_BYTES:,}"
                )
        path = Path(hf_hub_download(repository, PACKAGE_FILE, revision=commit))
        package = parse_package(path.read_bytes(), f"{PREFIX}{repository}@{commit}")
        for file, stated in package.files.items():
            if sizes.get(file) not in (None, stated.size_bytes):
                raise PackageError(
                    f"{reference}: {file} has {sizes[file]:,} bytes, but {stated.size_bytes:,} were packed"
                )
        check_room(repository, info, package.files, "model")
        for file in (*package.files, CARD):
            hf_hub_download(repository, file, revision=commit)
    return path.parent, commit


@contextmanager
def _of_the_hub(repository: str, way: str) -> Generator[None, None, None]:
    """Context that replaces errors of the hub by a one-line error with advice."""
    try:
        from huggingface_hub.errors import (
            HTTPError,  # pyright: ignore[reportPrivateImportUsage]
            LocalEntryNotFoundError,
        )
    except ImportError as error:
        raise PackageError(needs_extra("the Hugging Face hub", "hf")) from error
    try:
        yield
    except SourceError as error:  # disk full
        raise PackageError(str(error)) from error
    except (HTTPError, LocalEntryNotFoundError, OSError, ValueError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        said = without_credentials(" ".join(str(cause).split())) or type(cause).__name__
        raise PackageError(f"{PREFIX}{repository}: {said}; {way}") from error


FOLDER = ".eval_results"
REPOSITORIES = {
    "sudoku-extreme": "sapientinc/sudoku-extreme",
    "maze-30x30-hard": "sapientinc/maze-30x30-hard-1k",
}
"""Published datasets on the hub, by prefix of our dataset names."""
METRICS = ("exact_accuracy", "optimal_share")


def write_hub_results(folder: Path, evals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write a file for each accuracy into `folder`/.eval_results; return their names in the package.

    Args:
        folder: Folder of the package.
        evals: Rows of the view `evals`.
    """
    written: list[str] = []
    for row in evals:
        for metric in METRICS:
            if not row["count"] or row.get(metric) is None:
                continue
            name = f"{FOLDER}/{_plain(row['dataset'])}-{row['split']}-{metric}-{row['evaluation']}.yaml"
            (folder / FOLDER).mkdir(exist_ok=True)
            # JSON is valid YAML, so no YAML writer is needed.
            (folder / name).write_bytes(json_bytes([_result(row, metric)]))
            written.append(name)
    return written


def _result(row: Mapping[str, Any], metric: str) -> dict[str, Any]:
    dataset = next(
        (hub for name, hub in REPOSITORIES.items() if row["dataset"].startswith(name)), row["dataset"]
    )
    made: datetime = row["created_at"]
    return {
        "dataset": {"id": dataset, "task_id": metric},
        "value": round(100 * row[metric], 4),
        "date": made.date().isoformat(),
        "source": {"name": "trm-lab"},
        "notes": protocol_of(row),
    }


def protocol_of(row: Mapping[str, Any]) -> str:
    """Return a line that describes how an accuracy was measured, from a row of the view `evals`."""
    samples = row["samples"] or 1
    said = [
        f"{metric_rows(row)} of the {row['split']} split of {row['dataset']} ({row['split_digest'][:12]})",
        f"{row['supervision_steps']} supervision steps",
        f"{samples} sample{'s' * (samples > 1)}"
        + (f", selected by {row['selection']}" if row["selection"] else ""),
        f"{row['precision'] or 'unknown'} precision",
        f"{row['weights']} weights",
        f"{row['latent_init']} initial latents",
    ]
    if row["network_calls"] is not None:
        said.append(f"{row['network_calls']:g} network calls a puzzle")
    if row["flops"] is not None:
        said.append(f"{row['flops']:.3g} FLOP a puzzle")
    return "; ".join(said)


def metric_rows(row: Mapping[str, Any]) -> str:
    """Return the number of tested rows, as text."""
    return f"{row['count']:,} rows" + (" (a part)" if row["row_limit"] else "")


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)
