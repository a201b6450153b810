"""The readiness page: the compiled programs, and the content of a row."""

from __future__ import annotations

from typing import Any

from tests.conftest import PROJECT
from tests.support.scripts import load_script

readiness = load_script(PROJECT / "tools" / "readiness.py")
RECIPES, STUDY_TARGET, Program = readiness.RECIPES, readiness.STUDY_TARGET, readiness.Program
programs, render = readiness.programs, readiness.render


def test_runs_that_differ_in_data_or_rates_share_a_program() -> None:
    study = [each for each in programs() if each.target == STUDY_TARGET]
    of_baseline = next(each for each in study if "baseline" in each.experiments)
    assert {"exp01c", "exp04a_100", "exp08a"} <= set(of_baseline.experiments)
    names = [name for each in study for name in each.experiments]
    assert len(names) == len(set(names))
    assert len({each.key for each in study}) == len(study)


def test_recipes_are_compiled_for_gpus_too() -> None:
    targets = {(name, each.target) for each in programs() for name in each.experiments if name in RECIPES}
    assert {(name, target) for name in RECIPES for target in ("v4-64", "h100", "h200")} <= targets


ESTIMATE: dict[str, Any] = {
    "step_s": 0.0977,
    "share_of_peak": 0.313,
    "run_hours": 0.22,
    "kernels_without_estimate": 0,
    "micro_batches": 1,
}


def test_a_page_says_what_fits_and_what_is_not_compiled() -> None:
    wanted = [Program(("exp01c", "exp08a"), "v4-64", "a"), Program(("trm_maze",), "h100", "b")]
    row: dict[str, Any] = {
        "key": "a",
        "experiment": "exp01c",
        "target": "v4-64",
        "code": "now",
        "fits": True,
        "changed": "",
        "peak_bytes": 7_700_000_000,
        "device_bytes": 34_400_000_000,
        "collectives": [{"bytes": 39_000_000}],
        "estimate": ESTIMATE,
    }
    page = render([row], wanted, "now")
    assert "**1 of 2 programs are compiled; 1 of them fit.**" in page
    assert (
        "| `exp01c` and 1 with the same program | v4-64 | 7.7 of 34.4 | yes | 97.7 | 31% | 0.2 | 39.0 |  |"
        in page
    )
    assert page.endswith("Not compiled yet: trm_maze on h100.\n")
    refused: dict[str, Any] = {"key": "earlier", "experiment": "trm_maze", "target": "h100", "code": "old"}
    refused |= {"fits": False, "error": "needs 90.0 GB"}
    page = render([row, refused], wanted, "now")
    assert "| `trm_maze` * | h100 | | no | | | | | needs 90.0 GB |" in page
    assert page.endswith("Rows with *, 1 of 2, were compiled from an earlier version of the step.\n")


def test_the_digest_of_the_code_reads_files_that_exist() -> None:
    assert len(readiness.code_digest()) == 16
