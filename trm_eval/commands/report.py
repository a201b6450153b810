"""`trm-eval report`: results of experiments as a page."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from trm_data.command import Json, Root, SkipDamaged, emit, say_what_is_left_out
from trm_data.storage.root import Layout, root_to_read
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, Patterns, ScaleOption, counted
from trm_train.errors import ConfigError
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import SETTINGS, Setting, parse_setting
from trm_train.experiments.sweep import read_sweeps, sweep_experiments

if TYPE_CHECKING:
    from trm_eval.report.group import Group


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write a report on experiments or runs: verdicts on claims, tables with intervals, figures, puzzles, and the SQL
    behind every number.

    DIR contains index.html, which needs no network, report.md, and each figure and table as SVG and CSV.
    Experiments without an evaluated run, and figures without a dataset or checkpoint, are named.

    For example:

      trm-eval report 'exp*' 'contrib0[12]*' --scale tiny --out report
      trm-eval report exp04a --scale tiny --out docs/exp04a
      trm-eval report quickstart_width
      trm-eval report my_sweep
      trm-eval report 'quickstart-*' exp01a-2f0c1f7e-s1
    """

    patterns: Patterns = ()
    out: Annotated[str, arg(metavar="DIR")] = "report"
    """Folder to write."""
    scale: ScaleOption = None
    data: DataOption = None
    skip_damaged: SkipDamaged = False
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Write the report and print its path."""
        from trm_eval.report.ask import without_root
        from trm_eval.report.blocks import write_report
        from trm_eval.report.page import further_blocks, study_page
        from trm_eval.tables.query import skipping_damaged

        layout = root_to_read(self.root)
        with skipping_damaged(self.skip_damaged):
            groups, problems, setting = self._gather(layout)
            runs = sorted({member.run for group in groups for member in group.members})
            further = further_blocks(layout, groups, setting, problems)
            left_out = [without_root(layout, problem) for problem in problems]
            page = study_page(groups, setting, self._as_typed(), left_out, further)
        paths = write_report(page, Path(self.out).expanduser())
        said = f"{paths[0]}: {counted(len(runs), 'run')} in {counted(len(groups), 'group')}"
        said += f", {counted(len(paths) - 1, 'file')} beside it"
        emit({"runs": runs, "files": paths}, said, as_json=self.json)
        return say_what_is_left_out("trm-eval", problems, skip=self.skip_damaged)

    def _gather(self, layout: Layout) -> tuple[list[Group], list[str], Setting | None]:
        """Return the results of the experiments, or of the named runs, which have no common setting."""
        from trm_eval.report.study import gather, gather_runs, runs_named

        sweeps, unread = read_sweeps(layout)
        points = sweep_experiments(sweeps)
        asked = parse_setting(self.scale, self.data)
        try:
            usual = {item.setting() for item in select_experiments(self.patterns, None, points)}
        except ConfigError:  # names of runs
            return *gather_runs(layout, runs_named(layout, self.patterns, asked)), None
        setting = asked or (usual.pop() if len(usual) == 1 else SETTINGS[0])
        try:
            groups, problems = gather(layout, select_experiments(self.patterns, setting, points), setting)
            return groups, problems + [line for line in unread if line not in problems], setting
        except (ConfigError, EvalError) as error:
            with suppress(EvalError):  # runs of these experiments with other options
                return *gather_runs(layout, runs_named(layout, self.patterns, asked)), None
            raise error from None

    def _as_typed(self) -> str:
        words = ["trm-eval", "report", *self.patterns]
        words += ["--scale", self.scale] if self.scale else []
        words += ["--data", self.data] if self.data else []
        return shlex.join([*words, "--out", self.out])
