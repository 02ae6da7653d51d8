"""Settings: defaults, where they come from, which source wins, and what is refused, all at once."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.model.configuration import DEFAULT_URL, RULES
from standfast.settings import URL_VARIABLE, Settings, _warn_once, load_settings, read_settings


def problems_of(environment=None, **given):
    """Return what is said against these settings."""
    with pytest.raises(ConfigurationError) as caught:
        read_settings(given, environment=environment or {})
    return str(caught.value)


class TestValues:
    def test_defaults(self) -> None:
        """Without a word, an embedded store with a lease of 15 s and a beat every third of it."""
        settings = load_settings({})
        assert settings.url == DEFAULT_URL
        assert (settings.lease, settings.beat_every, settings.look_ahead) == (15, 5, 10)
        assert settings.lease_span == timedelta(seconds=15)
        assert settings == Settings()

    def test_every_setting_has_a_rule(self) -> None:
        """A new setting cannot be forgotten where values are read and checked; its own default passes."""
        assert tuple(RULES) == Settings.__struct_fields__
        for name, default in msgspec.structs.asdict(Settings()).items():
            rule = RULES[name]
            assert rule.optional if default is None else rule.check(default) == default, name

    def test_a_folder_is_given_as_a_path_or_a_text(self) -> None:
        """Anything else is refused."""
        assert load_settings({}, incidents_dir=Path("/var/x")).incidents_dir == "/var/x"
        for wrong in (7, b"/var/x", "a\0b"):
            with pytest.raises(ConfigurationError, match="must be the path of a folder, or none"):
                load_settings({}, incidents_dir=wrong)

    def test_every_setting_can_be_given_to_the_app(self) -> None:
        """The app passes all of them on."""
        given: dict[str, Any] = {
            "url": "sqlite:///other.db",
            "namespace": "shop",
            "lease": 60,
            "beat": 7,
            "grace": timedelta(minutes=1),
            "hang_limit": 61,
            "look_ahead": 62,
            "safety_poll": 63,
            "store_timeout": 64,
            "retry_for": 67,
            "concurrency": 65,
            "timeout": 65,
            "max_wait": 66,
            "keep_finished": 77,
            "keep_dead_for": 97,
            "keep_dead": 98,
            "recycle_age": 68,
            "recycle_jobs": 69,
            "recycle_memory": "70MB",
            "drain_limit": 71,
            "name": "shop",
            "release": "2030.1",
            "incidents_dir": "/var/lib/shop/incidents",
            "keep_incidents": 78,
            "keep_incidents_for": 79,
            "keep_incidents_mb": 80,
            "blocked_warning": 88,
            "incident_locals": True,
            "files": "/var/lib/shop/files",
            "files_limit": 81_000_000,
            "metrics_dir": "/run/shop/metrics",
            "background_limit": 30,
            "background_when_full": "reject",
        }
        app = Standfast(**given)
        assert msgspec.structs.asdict(app.settings) == given | {"grace": 60, "recycle_memory": 70_000_000}
        assert set(app.settings_from.values()) == {"the code"}
        assert app.settings_from.keys() == RULES.keys()

    def test_spans_may_be_timedeltas(self) -> None:
        """A span is seconds or a timedelta."""
        assert load_settings({}, lease=timedelta(minutes=1)).lease == 60

    def test_none_means_not_given(self) -> None:
        """An option that was not given keeps its default, or what a weaker source says."""
        assert load_settings({}, lease=None, namespace=None).lease == 15

    def test_none_is_a_value_where_the_default_is_another(self) -> None:
        """`max_wait=None` lets jobs wait for ever; to leave it out does not."""
        assert load_settings({}, max_wait=None).max_wait is None
        assert Standfast("memory://", max_wait=None).settings.max_wait is None
        assert Standfast("memory://").settings.max_wait == 300

    @pytest.mark.parametrize(("lease", "margin"), [(15, 1), (5, 0.5), (100, 1)])
    def test_margin_is_a_tenth_and_at_most_a_second(self, lease: float, margin: float) -> None:
        """A worker stops trusting its lease a little before its end."""
        assert load_settings({}, lease=lease).margin == margin

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("lease", 0),
            ("lease", float("nan")),
            ("lease", float("inf")),
            ("lease", True),
            ("lease", "30s"),
            ("lease", 365 * 86_400 + 1),
            ("hang_limit", -1),
            ("safety_poll", 0),
            ("store_timeout", 0),
            ("retry_for", -1),
            ("grace", -0.1),
            ("look_ahead", -1),
            ("beat", 0),
            ("beat", 8),
            ("max_wait", 0),
            ("incident_locals", 1),
            ("max_wait", "none"),
            ("concurrency", 0),
            ("concurrency", 10_001),
            ("concurrency", 10**24),
            ("concurrency", float("inf")),
            ("concurrency", 1.5),
            ("concurrency", "many"),
            ("namespace", "Shop"),
            ("namespace", "1st"),
            ("namespace", "a" * 32),
            ("namespace", "a-b"),
            ("namespace", ""),
            ("namespace", 7),
            ("url", 7),
            ("url", ""),
        ],
    )
    def test_bad_values_are_refused_by_name(self, name: str, value: Any) -> None:
        """A setting that cannot work is refused before anything is opened, with its name and where it came from."""
        said = problems_of(**{name: value})
        assert said.startswith(name)
        assert "(from the code): must " in said

    def test_zero_is_allowed_where_it_means_none(self) -> None:
        """No grace and no look-ahead are choices."""
        settings = load_settings({}, grace=0, look_ahead=0)
        assert (settings.grace, settings.look_ahead) == (0, 0)

    @pytest.mark.parametrize(
        ("text", "size"),
        [("1MB", 10**6), ("1.5 GiB", 3 * 2**29), ("2g", 2 * 10**9), ("4096kib", 2**22), ("5000000", 5_000_000)],
    )
    def test_sizes(self, text: str, size: int) -> None:
        """As people write them; bytes where there is no unit."""
        assert load_settings({}, recycle_memory=text).recycle_memory == size
        assert load_settings({"STANDFAST_RECYCLE_MEMORY": text}).recycle_memory == size

    @pytest.mark.parametrize("size", ["", "much", "400 XB", "-1MB", 999_999, True, 1.5, "10" * 20])
    def test_bad_sizes(self, size: object) -> None:
        """With what would be right."""
        assert "must be 1MB or more; write e.g. 400MB, 1.5GiB or bytes, or none" in problems_of(recycle_memory=size)

    @pytest.mark.parametrize("namespace", ["shop", "a", "shop_2", "a" * 31])
    def test_good_namespaces(self, namespace: str) -> None:
        """Small letters, digits and underscores, a letter first."""
        assert load_settings({}, namespace=namespace).namespace == namespace


class TestEnvironment:
    def test_it_overrides_the_url(self) -> None:
        """STANDFAST_URL wins over the code, and the code over the default; an empty variable is none."""
        given = {"url": "sqlite:///code.db"}
        assert load_settings({URL_VARIABLE: "sqlite:///env.db"}, **given).url == "sqlite:///env.db"
        assert load_settings({URL_VARIABLE: ""}, **given).url == "sqlite:///code.db"

    def test_every_setting_has_a_variable(self) -> None:
        """STANDFAST_ and the name in capitals."""
        said = {
            "url": ("sqlite:///e.db", "sqlite:///e.db"),
            "namespace": ("shop", "shop"),
            "lease": ("1m", 60),
            "beat": ("500ms", 0.5),
            "grace": ("0", 0),
            "hang_limit": ("2h", 7200),
            "look_ahead": ("1.5", 1.5),
            "safety_poll": (" 3 s ", 3),
            "store_timeout": ("1d", 86_400),
            "retry_for": ("0", 0),
            "concurrency": ("7", 7),
            "timeout": ("10m", 600),
            "max_wait": ("none", None),
            "keep_finished": ("30d", 30 * 86_400),
            "keep_dead_for": ("90d", 90 * 86_400),
            "keep_dead": ("5000", 5000),
            "recycle_age": ("1d", 86_400),
            "recycle_jobs": ("10000", 10_000),
            "recycle_memory": ("400MB", 400_000_000),
            "drain_limit": ("5m", 300),
            "name": ("shop", "shop"),
            "release": ("2030.1", "2030.1"),
            "incidents_dir": ("/var/lib/shop", "/var/lib/shop"),
            "keep_incidents": ("78", 78),
            "keep_incidents_for": ("none", None),
            "keep_incidents_mb": ("80", 80),
            "blocked_warning": ("0", 0),
            "incident_locals": ("true", True),
            "files": ("/var/lib/files", "/var/lib/files"),
            "files_limit": ("2MB", 2_000_000),
            "metrics_dir": ("/run/shop/metrics", "/run/shop/metrics"),
            "background_limit": ("7", 7),
            "background_when_full": ("enqueue", "enqueue"),
        }
        environment = {f"STANDFAST_{name.upper()}": text for name, (text, _) in said.items()}
        loaded = read_settings({"lease": 5, "concurrency": 3}, environment=environment)
        assert msgspec.structs.asdict(loaded.settings) == {name: value for name, (_, value) in said.items()}
        assert loaded.where == {name: f"STANDFAST_{name.upper()}" for name in RULES}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("lease", "0"),
            ("lease", "soon"),
            ("lease", "-5"),
            ("lease", "5 weeks"),
            ("lease", "none"),
            ("lease", "1e400"),
            ("lease", "nan"),
            ("concurrency", "1.5"),
            ("concurrency", "none"),
            ("concurrency", "10001"),
            ("namespace", "No Such"),
            ("keep_dead", "0"),
            ("keep_dead_for", "0"),
            ("keep_incidents", "0"),
            ("keep_incidents", "none"),
            ("keep_incidents_for", "0"),
            ("keep_incidents_mb", "lots"),
        ],
    )
    def test_bad_texts_are_refused_with_the_variable(self, name: str, text: str) -> None:
        """The variable to correct is named, and what it holds."""
        variable = f"STANDFAST_{name.upper()}"
        assert problems_of({variable: text}).startswith(f"{name}={text} (from {variable}): must ")

    @pytest.mark.parametrize(
        ("variable", "hint"),
        [
            ("STANDFAST_LEASSE", "did you mean STANDFAST_LEASE?"),
            ("STANDFAST_lease", "did you mean STANDFAST_LEASE?"),
            ("STANDFAST_ALERTS", "[alerts] is a table of the settings file"),
            ("STANDFAST_ALLERTS", "there are: "),
            ("STANDFAST_ZZZZ", "there are: STANDFAST_CONFIG, STANDFAST_URL, STANDFAST_NAMESPACE"),
        ],
    )
    def test_a_mistyped_variable_is_told_and_stops_nothing(
        self, variable: str, hint: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A warning, once, with the nearest name; what it holds is not told, for it may be a secret."""
        _warn_once.cache_clear()
        for _ in range(2):
            assert load_settings({variable: "geheim"}) == Settings()
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert f"unknown variable {variable}; {hint}" in record.getMessage()
        assert "geheim" not in caplog.text

    def test_a_mistyped_variable_is_told_with_what_is_wrong(self) -> None:
        """Where something else stops the program, it is part of the story."""
        said = problems_of({"STANDFAST_LEESE": "1", "STANDFAST_LEASE": "0"})
        assert "(1) unknown variable STANDFAST_LEESE; did you mean STANDFAST_LEASE?" in said

    @pytest.mark.parametrize(
        "variable",
        [
            "STANDFAST_PROVE",
            "STANDFAST_TEST_LEDGER",
            "STANDFAST_SERVICE_HOST",
            "STANDFAST_PORT",
            "STANDFAST_PORT_80_TCP_ADDR",
            "STANDFAST_WEB_SERVICE_PORT_HTTP",
            "STANDFASTER_LEASE",
            "PATH",
        ],
    )
    def test_variables_of_others_are_left_alone(self, variable: str) -> None:
        """Tests have their own, and Kubernetes puts some beside every service that is named standfast."""
        assert load_settings({variable: "tcp://10.0.0.1:80"}) == Settings()


class TestProblems:
    def test_all_are_told_at_once_with_their_sources(self, tmp_path) -> None:
        """Whoever got five things wrong in three places is told of five."""
        (tmp_path / "standfast.toml").write_text("grace = -1\nhang_limt = 5\n")
        said = problems_of({"STANDFAST_LEASE": "0", "STANDFAST_LEESE": "1"}, concurrency=0, grace=None)
        for problem in (
            "the settings have 5 problems: (1) ",
            "unknown setting hang_limt (from standfast.toml); did you mean hang_limit?",
            "unknown variable STANDFAST_LEESE",
            "grace=-1 (from standfast.toml): must be from 0 seconds to a year",
            "concurrency=0 (from the code): must be a whole number from 1 to 10,000",
            "lease=0 (from STANDFAST_LEASE): must be above 0 seconds and at most a year",
        ):
            assert problem in said
        assert "\n" not in said

    def test_a_span_that_would_be_rounded_to_none_is_refused(self) -> None:
        """A lease of nothing would be over before it began."""
        assert "and not less than a microsecond" in problems_of(lease=1e-7)
        assert "and not less than a microsecond" in problems_of(grace=1e-7)
        assert load_settings({}, lease=1e-6, grace=0).lease == 1e-6

    def test_a_value_that_does_not_count_is_no_problem(self) -> None:
        """The environment can rescue what the code got wrong."""
        assert load_settings({"STANDFAST_LEASE": "30"}, lease=-1).lease == 30

    def test_unknown_settings_are_refused_with_the_nearest_or_all(self) -> None:
        """A misspelt setting is not ignored."""
        assert problems_of(leese=3) == "unknown setting leese (from the code); did you mean lease?"
        assert "there are: url, namespace, lease" in problems_of(zzz=3)

    def test_a_beat_is_held_against_the_lease(self) -> None:
        """Both are named with their sources; against a lease that is wrong itself nothing is held."""
        said = problems_of({"STANDFAST_LEASE": "10"}, beat=6)
        assert said == (
            "beat=6 (from the code): must be at most half the lease, which is 10 (from STANDFAST_LEASE)"
        )
        assert "beat" not in problems_of(beat=8, lease=-1)

    @pytest.mark.parametrize(
        "environment",
        [
            {"STANDFAST_URL": "mysql://u:geheim@h/d"},
            {"STANDFAST_NAMESPACE": "mysql://u:geheim@h/d"},
            {"STANDFAST_ULR": "mysql://u:geheim@h/d"},
            {"STANDFAST_CONFIG": "mysql://u:geheim@h/d"},
        ],
    )
    def test_a_password_is_never_repeated(self, monkeypatch, environment: dict[str, str]) -> None:
        """Also where a URL stands in the wrong place; and a bad URL is told together with all else."""
        for name, value in (environment | {"STANDFAST_LEASE": "0"}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ConfigurationError) as caught:
            Standfast()
        assert "geheim" not in str(caught.value)
        assert "(2) " in str(caught.value)
        assert all(name in str(caught.value) for name in environment)

    def test_options_are_checked_on_top_of_settings_that_were(self) -> None:
        """What the command line overrides is checked again, with the option named."""
        loaded = read_settings({"beat": 4}, environment={})
        assert loaded.overridden(lease=30.0, grace=None).settings.lease == 30
        with pytest.raises(ConfigurationError, match=r"half the lease, which is 1 \(from --lease\)"):
            loaded.overridden(lease=1.0)
