"""Evidence that is kept has an end, and says what was left out."""

import pytest

from standfast.model.incidents import Evidence
from standfast.model.redaction import scrub_of
from standfast.supervisor.incidents.folders import (
    LARGEST,
    LONGEST_PART,
    MOST_PARTS,
    bounded,
    cut_middle,
    fit_evidence,
)

A_WORD = 200
"""Bytes that the word about what was left out may add."""


def test_a_long_part_keeps_both_its_ends():
    """How it began and how it ended is there, cut at the ends of lines, with a word in between."""
    lines = [f"line {number}" for number in range(100_000)]
    [text] = fit_evidence(Evidence({"log": "\n".join(lines)})).parts.values()
    assert len(text.encode()) <= LONGEST_PART + A_WORD
    kept = text.splitlines()
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    [about] = set(kept) - set(lines)
    assert about.startswith("… ")
    assert about.endswith("characters left out …")


def test_all_parts_together_have_a_limit_and_small_ones_stay_whole():
    """The large ones share what is left."""
    parts = {"small": "whole\n" * 100} | {f"large{number}": "é" * LONGEST_PART for number in range(10)}
    kept = fit_evidence(Evidence(parts)).parts
    assert kept["small"] == parts["small"]
    assert sum(len(text.encode()) for text in kept.values()) <= LARGEST + len(kept) * A_WORD
    assert len({len(text) for name, text in kept.items() if name != "small"}) == 1


def test_what_fits_stays_as_it_is():
    """Up to the last byte."""
    parts = {f"part{number}": "x" * LONGEST_PART for number in range(LARGEST // LONGEST_PART)}
    assert fit_evidence(Evidence(parts)).parts == parts


def test_too_many_parts_are_not_kept():
    """Nobody reads a thousand files."""
    assert len(fit_evidence(Evidence({f"p{number}": "" for number in range(1000)})).parts) == MOST_PARTS


@pytest.mark.parametrize("size", [1, 10, 1_000_000, 30_000_000])
def test_what_waits_is_bounded(size):
    """A part of any size costs no more than what will be looked at."""
    [text] = bounded(Evidence({"log": "x" * size})).parts.values()
    assert len(text) <= min(size, 2 * LONGEST_PART + A_WORD)


def test_a_secret_where_the_text_is_cut_does_not_survive_in_part():
    """Secrets are taken out first."""
    secret = "s3cr3t-" * 3
    for shift in range(0, len(secret), 5):
        text = "x" * (LONGEST_PART // 2 - shift) + secret + "y" * LONGEST_PART
        [kept] = fit_evidence(Evidence({"log": text}), scrub_of([secret])).parts.values()
        assert "s3cr" not in kept


def test_a_cut_goes_through_no_character():
    """Bytes are counted, characters are cut."""
    assert cut_middle("é" * 100, 11).startswith("éé\n…")
