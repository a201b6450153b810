"""Statistics of results: pure functions without files.

Each function takes a polars frame, as returned by `trm_eval.sql`, and names of its columns, or counts. Random draws use
an explicit seed. Functions raise `StatisticsError` with the reason if the numbers do not support a result.

    intervals   of a share (Wilson), of a mean over grouped rows (bootstrap)
    paired      two runs on the same puzzles (McNemar), many comparisons (Holm)
    seeds       the mean over seeds and its interval, the difference of two experiments over their seeds
    scaling     curves with and without a ceiling, their bands, where they saturate
    factorial   share of variance explained by each factor of a full factorial group
"""

from trm_eval.statistics.factorial import Effect, anova
from trm_eval.statistics.intervals import Interval, bootstrap_mean, share_intervals, wilson
from trm_eval.statistics.paired import Paired, holm, pair, with_tests
from trm_eval.statistics.scaling import Band, Fit, Form, band, choose_fit, fit, saturation
from trm_eval.statistics.seeds import AcrossSeeds, across_seeds, difference_across_seeds

__all__ = [
    "AcrossSeeds",
    "Band",
    "Effect",
    "Fit",
    "Form",
    "Interval",
    "Paired",
    "across_seeds",
    "anova",
    "band",
    "bootstrap_mean",
    "choose_fit",
    "difference_across_seeds",
    "fit",
    "holm",
    "pair",
    "saturation",
    "share_intervals",
    "wilson",
    "with_tests",
]
