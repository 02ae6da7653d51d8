"""Settings: defaults, where they come from, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import ConfigurationError
from holdfast.settings import DEFAULT_URL, URL_VARIABLE, load_settings


def test_defaults() -> None:
    """Without a word, an embedded store with a lease of 15 s and a beat every third of it."""
    settings = load_settings({})
    assert settings.url == DEFAULT_URL
    assert (settings.lease, settings.beat_every, settings.look_ahead) == (15, 5, 10)
    assert settings.lease_span == timedelta(seconds=15)


def test_the_environment_overrides_the_url() -> None:
    """HOLDFAST_URL wins over the code, and the code over the default; an empty variable is none."""
    given = {"url": "sqlite:///code.db"}
    assert load_settings({URL_VARIABLE: "sqlite:///env.db"}, **given).url == "sqlite:///env.db"
    assert load_settings({URL_VARIABLE: ""}, **given).url == "sqlite:///code.db"


def test_spans_may_be_timedeltas() -> None:
    """A span is seconds or a timedelta."""
    assert load_settings({}, lease=timedelta(minutes=1)).lease == 60


def test_none_means_default() -> None:
    """An option that was not given keeps its default."""
    assert load_settings({}, lease=None, namespace=None).lease == 15


@pytest.mark.parametrize(("lease", "margin"), [(15, 1), (5, 0.5), (100, 1)])
def test_margin_is_a_tenth_and_at_most_a_second(lease: float, margin: float) -> None:
    """A worker stops trusting its lease a little before its end."""
    assert load_settings({}, lease=lease).margin == margin


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease", 0),
        ("lease", float("nan")),
        ("hang_limit", -1),
        ("safety_poll", 0),
        ("store_timeout", 0),
        ("grace", -0.1),
        ("look_ahead", -1),
        ("beat", 0),
        ("beat", 8),
        ("concurrency", 0),
        ("concurrency", "many"),
        ("namespace", "Shop"),
        ("namespace", "1st"),
        ("namespace", "a" * 32),
        ("namespace", "a-b"),
        ("namespace", ""),
    ],
)
def test_bad_values_are_refused_by_name(name: str, value: Any) -> None:
    """A setting that cannot work is refused before anything is opened, and named."""
    with pytest.raises(ConfigurationError, match=name):
        load_settings({}, **{name: value})


def test_zero_is_allowed_where_it_means_none() -> None:
    """No grace and no look-ahead are choices."""
    settings = load_settings({}, grace=0, look_ahead=0)
    assert (settings.grace, settings.look_ahead) == (0, 0)


@pytest.mark.parametrize("namespace", ["shop", "a", "shop_2", "a" * 31])
def test_good_namespaces(namespace: str) -> None:
    """Small letters, digits and underscores, a letter first."""
    assert load_settings({}, namespace=namespace).namespace == namespace


def test_all_problems_are_told_at_once() -> None:
    """Whoever got three things wrong is told of three."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, lease=-1, grace=-1, concurrency=0)
    assert all(name in str(caught.value) for name in ("lease", "grace", "concurrency"))


def test_unknown_settings_are_refused_with_the_known_ones() -> None:
    """A misspelt setting is not ignored."""
    with pytest.raises(ConfigurationError, match=r"unknown setting leese; there are: .*lease"):
        load_settings({}, leese=3)
