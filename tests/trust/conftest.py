"""Use the evaluated run of the evaluation tests here too."""

from tests.trm_eval.conftest import evaluated

__all__ = ["evaluated"]
