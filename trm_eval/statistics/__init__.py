"""Statistics of results: pure functions without files.

Each function takes a polars frame, as returned by `trm_eval.sql`, and names of its columns, or counts. Random draws use
an explicit seed. Functions raise `StatisticsError` with the reason if the numbers do not support a result.

    intervals   of a share (Wilson), of a mean over seeds, of the difference of two experiments over their seeds; two
                runs on the same puzzles (McNemar), many comparisons (Holm)
    scaling     curves with and without a ceiling, their bands, where they saturate
"""

from trm_eval.statistics.intervals import (
    AcrossSeeds,
    Interval,
    Paired,
    across_seeds,
    difference_across_seeds,
    holm,
    wilson,
    with_tests,
)
from trm_eval.statistics.scaling import Band, Fit, Variant, band, choose_fit, fit, saturation

__all__ = [
    "AcrossSeeds",
    "Band",
    "Fit",
    "Interval",
    "Paired",
    "Variant",
    "across_seeds",
    "band",
    "choose_fit",
    "difference_across_seeds",
    "fit",
    "holm",
    "saturation",
    "wilson",
    "with_tests",
]
