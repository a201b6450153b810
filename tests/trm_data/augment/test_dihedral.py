"""The dihedral ids are the published ones; inverse and composition hold on every grid."""

import numpy as np
import pytest

from trm_data.symmetry.dihedral import Dihedral

PUBLISHED = (
    lambda g: g,
    lambda g: np.rot90(g, 1),
    lambda g: np.rot90(g, 2),
    lambda g: np.rot90(g, 3),
    np.fliplr,
    np.flipud,
    np.transpose,
    lambda g: np.fliplr(np.rot90(g, 1)),
)


@pytest.mark.parametrize("dihedral", range(8))
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5), (30, 7)])
def test_images_are_the_published_ones(dihedral, shape):
    grid = np.arange(shape[0] * shape[1]).reshape(shape)
    np.testing.assert_array_equal(Dihedral(dihedral).apply(grid), PUBLISHED[dihedral](grid))


@pytest.mark.parametrize("dihedral", range(8))
def test_inverse_undoes(dihedral):
    grid = np.arange(12).reshape(3, 4)
    image = Dihedral(dihedral).apply(grid)
    np.testing.assert_array_equal(Dihedral(dihedral).inverse().apply(image), grid)


def test_composition_applies_the_argument_first():
    grid = np.arange(12).reshape(3, 4)
    for second in range(8):
        for first in range(8):
            both = Dihedral(second).compose(Dihedral(first))
            expected = Dihedral(second).apply(Dihedral(first).apply(grid))
            np.testing.assert_array_equal(both.apply(grid), expected)


def test_an_unknown_id_is_refused():
    with pytest.raises(ValueError, match="got 8; expected 0 to 7"):
        Dihedral(8)
