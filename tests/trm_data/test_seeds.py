"""The compiled draws equal the plain ones, and the plain ones match their definition."""

import itertools

import numpy as np
import pytest

from trm_data.seeds import draws as seeds
from trm_data.seeds import kernels as seeds_kernels

LARGEST = 2**64 - 1


@pytest.mark.parametrize("draw", [(0, 1, 0, 0), (LARGEST, 3, 2**63, 7), (12345, LARGEST, 1, LARGEST)])
def test_compiled_words_equal_numpy(draw):
    np.testing.assert_array_equal(seeds_kernels.words(*draw, 41), seeds.philox_words(*draw, 41))


def test_words_are_the_ones_of_philox():
    """Golden words: a change of numpy or of the key layout would change every dataset."""
    words = seeds.philox_words(7, seeds.Purpose.AUGMENT, 11, 13, 3)
    assert [int(word) for word in words] == GOLDEN


GOLDEN = [7936682083941634834, 10851485823838889801, 4081154347136978537]


def test_draws_that_differ_in_one_number_differ():
    base = (5, 6, 7, 8)
    names = [base] + [tuple(v + (i == j) for j, v in enumerate(base)) for i in range(4)]
    starts = [tuple(seeds.philox_words(*name, 8).tolist()) for name in names]
    assert len({word for start in starts for word in start}) == 8 * len(names)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**32 + 1, 2**62 + 2**61 + 1, 2**63])
def test_bounded_equals_reference(bound):
    got = seeds_kernels.bounded(1, 2, 3, 4, bound, 200)
    np.testing.assert_array_equal(got, seeds.bounded(1, 2, 3, 4, bound, 200))
    assert got.min() >= 0
    assert int(got.max()) < bound


def test_bounded_rejects_words_that_would_bias():
    """With bound 3 * 2**61 a third of the words' lower halves are below the threshold: some are rejected."""
    bound, count = 3 * 2**61, 300
    words = [int(word) for word in seeds.philox_words(1, 2, 3, 4, 2 * count)]
    kept = [word * bound >> 64 for word in words if word * bound % 2**64 >= 2**64 % bound]
    assert kept[:count] != [word * bound >> 64 for word in words[:count]]
    assert seeds_kernels.bounded(1, 2, 3, 4, bound, count).tolist() == kept[:count]


def test_bounded_is_even():
    counts = np.bincount(seeds_kernels.bounded(1, 2, 3, 4, 7, 70_000), minlength=7)
    assert np.abs(counts - 10_000).max() < 500


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1000])
def test_shuffled_is_the_reference_permutation(count):
    got = seeds_kernels.shuffled(9, 4, 3, 2, count)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, seeds.shuffled(9, 4, 3, 2, count))
    assert sorted(got) == list(range(count))


def test_shuffles_of_three_reach_all_orders_evenly():
    orders = [tuple(seeds_kernels.shuffled(0, 4, i, 0, 3).tolist()) for i in range(6000)]
    counts = [orders.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == 6000
    assert max(abs(count - 1000) for count in counts) < 150


def feistel_kernel(keys, indices, size):
    images = [seeds_kernels.feistel(keys, np.uint64(index), np.uint64(size)) for index in indices]
    return np.array(images, np.int64)


@pytest.mark.parametrize("size", [*range(1, 40), 63, 64, 65, 1000])
def test_feistel_is_a_bijection(size):
    keys = seeds.feistel_keys(3, seeds.Purpose.AUGMENT, 5)
    images = feistel_kernel(keys, np.arange(size), size)
    assert sorted(images) == list(range(size))
    assert images.tolist() == [seeds.feistel(keys, i, size) for i in range(size)]


@pytest.mark.parametrize("size", [1_218_998_108_159, 2**62, 2**63 - 1, 2**63])
def test_feistel_on_large_sets(size):
    keys = seeds.feistel_keys(3, seeds.Purpose.AUGMENT, 5)
    indices = np.array([*range(500), size - 1, size // 2], np.int64)
    images = feistel_kernel(keys, indices, size)
    assert images.tolist() == [seeds.feistel(keys, int(i), size) for i in indices]
    assert len(set(images.tolist())) == len(indices)
    assert images.min() >= 0
    assert int(images.max()) < size
    assert 0.4 < float(np.mean(images[:500] / size)) < 0.6


def test_feistel_keys_depend_on_every_number():
    keys = {
        tuple(seeds.feistel_keys(*name).tolist()) for name in [(1, 3, 5), (2, 3, 5), (1, 4, 5), (1, 3, 6)]
    }
    assert len(keys) == 4


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_are_words(seed):
    with pytest.raises(ValueError, match="expected 0 to 2"):
        seeds.philox_words(seed, 1, 0, 0, 1)
    with pytest.raises(ValueError, match="expected 0 to 2"):
        seeds_kernels.shuffled(seed, 1, 0, 0, 1)


def test_bounds_are_checked():
    with pytest.raises(ValueError, match="bound: got 0"):
        seeds_kernels.bounded(1, 1, 0, 0, 0, 1)
