"""What a report shows beyond the tests of its groups, each only where its data are."""

from __future__ import annotations

from collections.abc import Sequence

from trm_data.storage.root import Layout
from trm_eval.report.blocks import Block
from trm_eval.report.group import Group, shown_before
from trm_eval.report.halting import halting_pictures
from trm_eval.report.pareto import pareto_blocks
from trm_eval.report.provenance import provenance_blocks
from trm_eval.report.puzzles import puzzle_blocks
from trm_eval.report.ratings import rating_pictures
from trm_eval.report.samples import sample_pictures
from trm_eval.report.training import training_pictures
from trm_train.experiments.setting import Setting


def further_blocks(
    layout: Layout, groups: Sequence[Group], setting: Setting, problems: list[str]
) -> dict[str, list[Block]]:
    """Figures of each group by its name, and under the empty name the sections of the whole report.

    Args:
        layout: The root.
        groups: From `gather`.
        setting: Scale and data.
        problems: What the report is without, to which this adds.
    """
    shown = shown_before(groups)
    found: dict[str, list[Block]] = {
        group.name: [
            picture
            for pictures_of in (training_pictures, rating_pictures, halting_pictures, sample_pictures)
            for picture in pictures_of(layout, group, problems)
        ]
        for group in groups
        if group.name not in shown
    }
    found[""] = [
        *pareto_blocks(layout, groups, setting, problems),
        *puzzle_blocks(layout, groups),
        *provenance_blocks(layout, groups, problems),
    ]
    return found
