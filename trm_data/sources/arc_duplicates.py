"""What the published ARC sets are known to share, by task name.

Neighbours: `canonical.arc` finds these (`pair_hashes`); tests compare this table with what it finds in
the files. Known duplicates are reported and can be left out; they are no failure of a build.

The standard ARC-1 dataset trains on all pairs of training and concept and the demonstrations of evaluation, and is
scored on the test pairs of evaluation; ARC-2 likewise, with training2 and evaluation2. For ARC-2 there is nothing
to name: no test pair of evaluation2 is trained on, not even up to symmetry.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDuplicate:
    """A test pair of `test_task` that is a pair of `train_task`, on which the standard dataset trains.

    Attributes:
        train_task: Name; the same as `test_task` where a task's test pair is the image of one of its own
            demonstrations.
        test_task: Name.
        exact: Whether the pairs are equal as they are, or only under colours and dihedral.
        note: What is equal to what.
    """

    train_task: str
    test_task: str
    exact: bool
    note: str

    @property
    def within_task(self) -> bool:
        """Whether both are one task, so that there is nothing to leave out."""
        return self.train_task == self.test_task


KNOWN_DUPLICATES = (
    KnownDuplicate("40853293", "070dd51e", True, "the same task: demonstrations and test pair are equal"),
    KnownDuplicate("caa06a1f", "50a16a69", False, "training pair 3 is an image of test pair 1"),
    KnownDuplicate("00576224", "00576224", False, "training pair 2 is an image of test pair 1"),
    KnownDuplicate("3979b1a8", "3979b1a8", False, "training pairs 1 and 2 are images of test pair 1"),
    KnownDuplicate("66e6c45b", "66e6c45b", False, "training pairs 1 and 2 are images of test pair 1"),
    KnownDuplicate("94414823", "94414823", False, "training pairs 1, 2 and 3 are images of test pair 1"),
    KnownDuplicate("992798f6", "992798f6", False, "training pair 4 is an image of test pair 1"),
    KnownDuplicate("ca8de6ea", "ca8de6ea", False, "training pairs 1, 2 and 3 are images of test pair 1"),
    KnownDuplicate("f3e62deb", "f3e62deb", False, "training pair 4 is an image of test pair 1"),
)
"""Of the standard ARC-1 dataset, all of them."""

TRAINING2_HAS_OF_EVALUATION = 376
"""Evaluation tasks that are in training2 under their names, each with a test pair: never train on training2 and
score on evaluation."""

EVALUATION2_HAS_OF_EVALUATION = ("0934a4d8", "136b0064", "16b78196", "981571dc", "aa4ec2a5", "da515329")
"""Tasks of evaluation2 that are in evaluation, test pairs included: a model that trained on all pairs of evaluation
has seen them. Besides, db695cfb of evaluation2 has the demonstrations of 55783887, and another test pair."""
