"""The evaluated run of the tests of evaluation serves here too."""

from tests.trm_eval.conftest import evaluated

__all__ = ["evaluated"]
