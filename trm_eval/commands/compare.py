"""`trm-eval compare`: compares two runs on the same puzzles."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from trm_data.command import Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting

if TYPE_CHECKING:
    from trm_eval.compare import Difference, Evaluation
    from trm_eval.statistics import Paired


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare two runs on the same puzzles: difference with interval and p-value, strata, changed puzzles, settings.

    The newest evaluations of both runs on the same rows are compared, with the same number of supervision steps if
    possible. An evaluation id (column evaluation of evals) selects one, to compare two ways of answering. Two
    experiments are also compared over their common seeds: the mean difference with Student's interval. A pair has
    Tango's interval and McNemar's exact p-value; those of strata are not corrected for their number.

    For example:

      trm-eval compare exp01a exp01f --scale tiny
      trm-eval compare quickstart-2626ad84-s0 quickstart-2626ad84-s1 --flips 10
      trm-eval compare 0123456789abcdef fedcba9876543210 --json
    """

    a: Annotated[Positional[str], arg(metavar="A")]
    """A run's name or folder, an experiment (the run that it defines), or the id of an evaluation."""
    b: Annotated[Positional[str], arg(metavar="B")]
    """As A; the reported difference is B - A."""
    scale: ScaleOption = None
    data: DataOption = None
    flips: int = 5
    """Number of puzzles solved by only one run to list, hardest first (0: none)."""
    root: Root = None
    json: bool = False
    """Print JSON for machines, with all flips."""

    def run(self) -> int:
        """Compare and print."""
        from trm_eval.compare import compare

        if self.flips < 0:
            raise EvalError(f"--flips: got {self.flips}; expected at least 0")
        found = compare(resolve_root(self.root), self.a, self.b, parse_setting(self.scale, self.data))
        emit(_as_json(found), partial(_print, found, self.flips), as_json=self.json)
        return 0


def _as_json(difference: Difference) -> dict[str, Any]:
    return {
        "a": {name: value for name, value in asdict(difference.a).items() if name != "config"},
        "b": {name: value for name, value in asdict(difference.b).items() if name != "config"},
        "all": _counts(difference.both),
        "strata": [{"stratum": name, **_counts(paired)} for name, paired in difference.strata],
        "flips": difference.flips.to_dicts(),
        "settings": [{"name": name, "a": a, "b": b} for name, a, b in difference.settings],
        "seeds": [
            {"seed": a.seed, "a": a.exact_accuracy, "b": b.exact_accuracy, "run_a": a.run, "run_b": b.run}
            for a, b in difference.seeds
        ],
        "across_seeds": None if (across := difference.across_seeds) is None else asdict(across),
    }


def _counts(paired: Paired) -> dict[str, Any]:
    low, high = paired.interval
    return {
        "puzzles": paired.count,
        "only_a": paired.only_a,
        "only_b": paired.only_b,
        "difference": paired.difference,
        "low": low,
        "high": high,
        "p_value": paired.p_value,
    }


def _print_seeds(difference: Difference) -> None:
    from trm_data.show.render import print_table

    print(f"over the {len(difference.seeds)} common seeds:")
    rows = [
        (a.seed, *(f"{100 * value:.2f}" for value in (a.exact_accuracy, b.exact_accuracy)), _points(b, a))
        for a, b in difference.seeds
    ]
    print_table(["seed", "A (%)", "B (%)", "B - A (points)"], rows)
    if (across := difference.across_seeds) is not None:
        print(
            f"mean {100 * across.mean:+.2f} points, 95% interval {100 * across.low:+.2f} to {100 * across.high:+.2f} "
            f"(Student, {across.count} seeds), p {across.p_value:.3g}\n"
        )


def _points(b: Evaluation, a: Evaluation) -> str:
    return f"{100 * (b.exact_accuracy - a.exact_accuracy):+.2f}"


def _print(difference: Difference, flips: int) -> None:
    from trm_data.show.render import print_table

    for letter, one in (("A", difference.a), ("B", difference.b)):
        print(f"{letter}  {one.title}: exact {100 * one.exact_accuracy:.2f}% of {one.count:,}")
    print(f"on {difference.both.count:,} rows of the {difference.a.split} split of {difference.a.dataset}\n")
    rows = [("all", difference.both), *difference.strata]
    print_table(
        ["puzzles", "asked", "only A", "only B", "B - A (points)", "95% interval", "p"],
        [
            (
                name,
                paired.count,
                paired.only_a,
                paired.only_b,
                f"{100 * paired.difference:+.2f}",
                f"{100 * paired.interval[0]:+.2f} to {100 * paired.interval[1]:+.2f}",
                f"{paired.p_value:.3g}",
            )
            for name, paired in rows
        ],
    )
    shown = difference.flips.head(flips)
    if len(shown):
        rated = difference.flips["rating"].null_count() < len(difference.flips)
        print(f"solved by one alone, the hardest {len(shown):,} of {len(difference.flips):,}:")
        print_table(
            ["row", *(["rating"] if rated else []), "solved by", "wrong cells of the other"],
            [
                (
                    flip["row"],
                    *(["NULL" if flip["rating"] is None else f"{flip['rating']:.2f}"] if rated else []),
                    "A" if flip["exact_a"] else "B",
                    flip["wrong_cells_b" if flip["exact_a"] else "wrong_cells_a"],
                )
                for flip in shown.to_dicts()
            ],
        )
    if len(difference.seeds) > 1:
        _print_seeds(difference)
    if difference.settings:
        print("what differs:")
        print_table(["setting", "A", "B"], [(name, str(a), str(b)) for name, a, b in difference.settings])
    else:
        print("nothing differs in configuration, data and evaluation")
