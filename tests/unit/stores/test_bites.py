"""Long lists are cut so that nothing is lost, reordered or larger than it may be."""

import pytest

from standfast.stores.verb import in_bites

MOST = 10


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([3, 7], [[3, 7]]),
        ([3, 7, 1], [[3, 7], [1]]),
        ([3, 8, 2, 1], [[3], [8, 2], [1]]),
        ([0] * 30, [[0] * 30]),
        ([40], [[40]]),
        ([1, 40, 1], [[1], [40], [1]]),
    ],
)
def test_a_list_is_cut_where_more_would_be_too_much(sizes, expected):
    """What is larger than a bite by itself comes alone."""
    assert list(in_bites(sizes, sizes, MOST)) == expected
