"""What processes must have in common, and how each of them ends."""

from __future__ import annotations

import pytest

from trm_data.command import Exit
from trm_data.errors import BucketError
from trm_train.errors import ConfigError, HostError, NotFiniteError
from trm_train.hosts.together import Hosts, differences, exit_code_of


def name(index: int) -> str:
    return f"process {index}"


def test_the_one_that_differs_from_most_is_named() -> None:
    same, other = {"optim.lr": 1e-4, "numpy": "2.4"}, {"optim.lr": 1e-3, "numpy": "2.4"}
    assert differences([same, same], name) == []
    assert differences([other, same, same], name) == ["process 0: optim.lr is 0.001, of process 1 0.0001"]
    assert differences([same, other], name) == ["process 1: optim.lr is 0.001, of process 0 0.0001"]
    assert differences([same, {}], name) == [
        'process 1: numpy is null, of process 0 "2.4"',
        "process 1: optim.lr is null, of process 0 0.0001",
    ]


def test_one_process_alone_waits_for_nobody() -> None:
    alone = Hosts()
    assert alone.first
    assert alone.meet("anywhere", "x") == ["x"]
    alone.prove_equal("anything", {"a": 1})
    assert alone.silent() == []
    with pytest.raises(ConfigError), alone.failing_together():
        raise ConfigError("as ever")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HostError("x"), Exit.ERROR),
        (HostError("x", Exit.STALLED), Exit.STALLED),
        (NotFiniteError("x"), Exit.NOT_FINITE),
        (BucketError("x"), Exit.BUCKET),
        (OSError("x"), Exit.ERROR),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (SystemExit(Exit.TERMINATED), Exit.TERMINATED),
        (SystemExit(), Exit.DONE),
        (ValueError("a bug"), 1),
    ],
)
def test_a_process_that_fails_ends_the_others_with_its_own_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code
