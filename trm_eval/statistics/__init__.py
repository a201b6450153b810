"""Which differences count: statistics of results, pure functions that read no files."""

from trm_eval.statistics.paired import Paired, holm

__all__ = ["Paired", "holm"]
