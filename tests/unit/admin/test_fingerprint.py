"""Fingerprints of errors: the same for what differs from time to time, another for what is another error."""

import pytest

from standfast.admin.job_details import fingerprint, shape_of

ALIKE = [
    ("ValueError: user 7 is gone", "ValueError: user 1234 is gone"),
    ("KeyError: 'ada'", "KeyError: 'grace'"),
    ("OSError: [Errno 2] No such file: '/tmp/a.csv'", "OSError: [Errno 2] No such file: '/srv/b/c.csv'"),
    ("OSError: cannot open /tmp/a.csv now", "OSError: cannot open /srv/x/b.csv now"),
    ("E: job 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "E: job 01a7b1c2-0000-7c3a-9f60-5a4b3c2d1e0f"),
    ("E: <Shop object at 0x7f00beef>", "E: <Shop object at 0x7f00cafe>"),
    ("E: https://a.example/1 gave 503", "E: https://b.example/2?x=1 gave 502"),
    ("E: 10.0.0.1:5432 refused after 3.5 s", "E: 10.0.0.2:5433 refused after 12 s"),
    ("process died (incident 3c2d1e0f)", "process died (incident aabbcc12)"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_differs_each_time_does_not_count(one, other):
    """Numbers, names in quotes, paths, addresses, ids."""
    assert shape_of(one) == shape_of(other)
    assert fingerprint(one) == fingerprint(other)


def test_what_is_another_error_has_another_fingerprint():
    """The type counts, and so do the words."""
    errors = [
        "ValueError: gone",
        "KeyError: gone",
        "ValueError: full",
        "ValueError: 7 gone",
        "Error404: x",
        "Error405: x",
    ]
    assert len({fingerprint(error) for error in errors}) == len(errors)


def test_a_fingerprint_is_short_and_stays():
    """It is in URLs that people keep: this one must never change."""
    assert fingerprint("SMTPError: 451 try again") == "e4785dbad61a"
    assert fingerprint(None) is None
    assert fingerprint("") is None


def test_long_and_strange_texts_have_one_too():
    """In reasonable time, whatever is in it."""
    assert fingerprint("E: " + "/" * 100_000 + "'" * 100_000 + "\x00\ud800") is not None
    assert len(shape_of("E: " + "word " * 10_000)) <= 500
