"""The set of taken classes is a dictionary, however much of it is on the disk."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trm_data.kinds import classes
from trm_data.kinds.classes import Classes, keys_of

HEXADECIMAL = st.integers(0, 80).map(
    lambda number: f"{number * 0x0303_0000_0000_0000_0000_0001_0000_0000:032x}"
)
"""Few, so that they come again, some with the same leading bits, some ending in zeros."""
OTHERS = st.sampled_from(["", "task", "été", "A" * 32, "g" * 32, "0" * 31, "0" * 33])
"""Of kinds that name their classes otherwise."""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class in memory too many makes a run, and two make one."""
    for name, value in {"NEWEST": 3, "PIECE": 4, "RUNS_OF_A_SIZE": 2, "PREFIX_BITS": 4, "GAP": 1}.items():
        monkeypatch.setattr(classes, name, value)


def take(taken: Classes, hashes: list[str], numbers: range) -> list[int | None]:
    """Who held each class before; what nobody held is taken, as `kinds.choosing` does."""
    known = taken.look_up(np.array(hashes, np.str_))
    before: list[int | None] = []
    for position, (hash_, number) in enumerate(zip(hashes, numbers, strict=True)):
        holder = -1 if known is None else int(known[position])
        before.append(holder if holder >= 0 else taken.newest.get(hash_))
        if before[-1] is None:
            taken.newest[hash_] = number
    taken.settle()
    return before


@pytest.mark.usefixtures("tiny")
@given(st.data(), st.lists(st.integers(0, 30), max_size=12))
def test_it_is_a_dictionary(data: st.DataObject, sizes: list[int]) -> None:
    taken, plain, number = Classes(), dict[str, int](), 0
    texts = st.one_of(HEXADECIMAL, OTHERS) if data.draw(st.booleans()) else HEXADECIMAL
    for size in sizes:
        hashes = data.draw(st.lists(texts, min_size=size, max_size=size))
        numbers = range(number, number + size)
        number += size
        expected: list[int | None] = []
        for hash_, each in zip(hashes, numbers, strict=True):
            expected.append(plain.get(hash_))
            plain.setdefault(hash_, each)
        assert take(taken, hashes, numbers) == expected
        assert len(taken) == len(plain)
        assert len(taken.newest) <= classes.NEWEST
    taken.close()


def test_many_classes_are_looked_up_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs of several sizes, read with the index as it is; some classes ask for a few leading bits only."""
    monkeypatch.setattr(classes, "NEWEST", 500)
    monkeypatch.setattr(classes, "PIECE", 256)
    monkeypatch.setattr(classes, "GAP", 8)
    draws = np.random.default_rng(0)
    hashes = [draws.bytes(16).hex() for _ in range(20_000)]
    taken = Classes(tmp_path)
    for start in range(0, len(hashes), 250):
        assert take(taken, hashes[start : start + 250], range(start, start + 250)) == [None] * 250
    assert taken.on_disk > 19_000
    assert len(taken) == len(hashes)
    for some in (hashes, hashes[::777], sorted(hashes)[100:400]):
        known = taken.look_up(np.array(some, np.str_))
        assert known is not None
        found = [taken.newest.get(hash_, int(each)) for hash_, each in zip(some, known, strict=True)]
        assert [hashes[each] for each in found] == some
    others = taken.look_up(np.array([draws.bytes(16).hex() for _ in range(5_000)]))
    assert others is not None
    assert (others == -1).all()
    taken.close()


def test_a_class_has_one_key_whatever_it_is_looked_up_with() -> None:
    hashes = ["00" * 16, "0a" * 15 + "00", "ff" * 16]
    together = keys_of(np.array(hashes, np.str_))
    beside_others = keys_of(np.array([*hashes, "longer than any of them that has digits only"], np.str_))
    assert together.tolist() == beside_others[:3].tolist()
    assert [key.ljust(16, b"\0") for key in together.tolist()] == [bytes.fromhex(hash_) for hash_ in hashes]
    assert len(set(keys_of(np.array(["AB" * 16, "ab" * 16, "\u0660" * 32])).tolist())) == 3


def test_ordinary_builds_write_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "made when it is needed"
    taken = Classes(folder)
    take(taken, [f"{number:032x}" for number in range(5_000)], range(5_000))
    assert taken.on_disk == 0
    assert not folder.exists()
