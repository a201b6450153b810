"""Uses the runs of the evaluation tests."""

from tests.trm_eval.conftest import evaluated, trained

__all__ = ["evaluated", "trained"]
