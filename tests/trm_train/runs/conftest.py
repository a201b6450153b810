"""The runs of the tests of evaluation serve here too."""

from tests.trm_eval.conftest import evaluated, trained

__all__ = ["evaluated", "trained"]
