"""Statistics of results: pure functions of numbers, without files.

Random draws use an explicit seed. Functions raise `StatisticsError` with the reason if the numbers do not support a
result.

    intervals   of a mean over seeds; two runs on the same puzzles (McNemar, Tango), many comparisons (Holm)
    scaling     curves with and without a ceiling, their bands, where they saturate
"""

from trm_eval.statistics.intervals import AcrossSeeds, Paired, across_seeds, holm
from trm_eval.statistics.scaling import Band, Fit, Variant, band, choose_fit, fit, saturation

__all__ = [
    "AcrossSeeds",
    "Band",
    "Fit",
    "Paired",
    "Variant",
    "across_seeds",
    "band",
    "choose_fit",
    "fit",
    "holm",
    "saturation",
]
