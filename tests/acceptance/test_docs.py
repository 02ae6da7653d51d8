"""The documentation says what the program does: examples are run, and the reference is held against the code."""

import dataclasses
import inspect
import re
from enum import Enum

import click
import msgspec
import pytest
from docs_session import ROOT, Session, blocks_of
from fleet import PROVE
from ready_python import ReadyPython

import standfast
from standfast import Background, Context, JobHandle, Life, Standfast, Window, errors, events
from standfast.admin.jobs import JobSeen
from standfast.admin.registry import OPERATIONS
from standfast.cli.exit_codes import ExitCode
from standfast.cli.main import cli
from standfast.dashboard import Dashboard
from standfast.dashboard.access.caller import HEADERS
from standfast.dashboard.web.pages import PAGES as PAGES_OF_DASHBOARD
from standfast.model.alerts import Alert, AlertRule, Example, Notice, NoticeKind, Silence
from standfast.model.backoff import TRANSIENT_ERRORS
from standfast.model.outcomes import Outcome
from standfast.model.policy import JobOptions, Policy
from standfast.model.records import Decision, FireCause
from standfast.model.states import CLAIMED, FINAL, MOVES, WAITING, Reason, State
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, NEEDS
from standfast.observe.obstacles import Cause
from standfast.schedules.rules import Misfire, Overlap, Rule
from standfast.settings import Settings
from standfast.task import TaskOptions

REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)(?P<target>[^)#]+)(#[^)]*)?\)")


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def python():
    """Give what runs the Python of all pages; at full size each program is a process from its start."""
    if PROVE:
        yield None
        return
    ready = ReadyPython()
    yield ready
    ready.close()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_work_as_shown(page, tmp_path, request, monkeypatch, python):
    """Each Python block runs and each command prints what the page shows, in the order of the page."""
    if "DATABASE_URL" in page.read_text():
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("postgres_database"))
    if "REDIS_URL" in page.read_text():
        monkeypatch.setenv("REDIS_URL", request.getfixturevalue("redis_url"))
    session = Session(tmp_path, python)
    for block in blocks_of(page):
        session.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    """Every link to a file of ours has that file behind it."""
    targets = [match["target"] for match in LINK.finditer(page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_source_files_that_a_page_names_exist(page):
    """A map of the code that leads nowhere is worse than none."""
    named = re.findall(r"`((?:\w+/)+\w*(?:\.py|\.sql)?)`", page.read_text())
    roots = (ROOT, ROOT / "src" / "standfast")
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


def test_every_setting_is_documented_with_its_default():
    """The table of settings is the Settings class."""
    documented = {row[0]: row[1] for row in table_of("settings.md", "setting")}
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert documented == {f"`{name}`": f"`{default}`" for name, default in defaults.items()}


def test_every_option_of_a_task_is_documented_with_its_default():
    """The table of task options is what a declaration takes."""
    documented = {row[0].strip("`"): row[1].strip("`") for row in table_of("tasks.md", "option")}
    assert documented.keys() == TaskOptions.__annotations__.keys()
    for field in dataclasses.fields(Policy):
        if field.name != "backoff":  # declared as None, which means Exponential()
            assert documented[field.name] == _written(field.default)


def _home(name):
    return getattr(getattr(standfast, name), "__module__", None)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("option of `task.options`", set(JobOptions.__annotations__)),
        ("outcome", {outcome.__name__ for outcome in Outcome.__subclasses__()}),
        ("backoff", {name for name in standfast.__all__ if _home(name) == "standfast.model.backoff"} - {"Retries"}),
    ],
)
def test_the_tables_about_tasks_are_complete(header, names):
    """Nothing is missing from them and nothing is in them that does not exist."""
    assert {re.split(r"[`(]", row[0].lstrip("`"))[0] for row in table_of("tasks.md", header)} == names


def test_every_option_of_rules_and_windows_is_documented_with_its_default():
    """The tables of the page about schedules are the fields of the classes."""
    documented = {}
    for row in table_of("schedules.md", "option"):
        for name in row[0].split(", "):
            documented[name.strip("`")] = row[1].strip("`")
    fields = [*msgspec.structs.fields(Rule), *msgspec.structs.fields(Window)]
    assert documented == {field.name: _written(field.default) for field in fields if not field.required}


def _written(default):
    return repr(default.value if isinstance(default, Enum) else default).replace("'", '"')


@pytest.mark.parametrize(
    ("header", "words"), [("decision", Decision), ("cause", FireCause), ("word", [*Misfire, *Overlap])]
)
def test_the_words_about_schedules_are_complete(header, words):
    """What becomes of a planned time is told in words that all stand there, and no others do."""
    assert {re.sub(r"[`\"]", "", row[0]) for row in table_of("schedules.md", header)} == {*words}


NOT_FOR_USERS = {"caller", "result_type"}
"""What a handle goes by, and its repr does not show."""


@pytest.mark.parametrize("kind", [Standfast, Context, JobHandle, Background, Life])
def test_every_member_of_what_users_hold_is_documented(kind):
    """Whatever an app, a context or a handle offers stands on the page about tasks."""
    text = (REFERENCE / "tasks.md").read_text()
    members = [name for name in dir(kind) if hasattr(kind, name) and not name.startswith("_")]
    assert {name for name in members if not re.search(rf"`{name}\b", text)} <= NOT_FOR_USERS


def test_every_state_move_and_reason_is_documented_as_the_code_has_it():
    """The page about states is the transition table."""
    kinds = {"waiting": WAITING, "claimed": CLAIMED, "final": FINAL}
    assert {row[0]: row[1] for row in table_of("states.md", "state")} == {
        f"`{state}`": next(kind for kind, states in kinds.items() if state in states) for state in State
    }
    assert [row[:4] for row in table_of("states.md", "move")] == [
        [f"`{move}`", ", ".join(sorted(rule.sources)), f"`{rule.target}`", "yes" if rule.charges else "no"]
        for move, rule in MOVES.items()
    ]
    assert {row[0] for row in table_of("states.md", "reason")} == {f"`{reason}`" for reason in Reason}


def test_the_errors_are_drawn_and_documented_as_they_are_defined():
    """The tree atop errors.py and the tables have each error below what it is a kind of, and in its order."""
    drawn = list(drawn_errors())
    _, *all_errors = family(errors.StandfastError)
    defined = [each for each in all_errors if each.__module__ == errors.__name__]  # others are for pages and API
    assert [(name, parent) for name, parent, _ in drawn] == [
        (each.__name__, each.__bases__[0].__name__) for each in defined
    ]
    assert [tuple(row[:4]) for row in table_of("errors.md", "error")] == [
        (f"`{name}`", f"`{parent}`", "●" if name in standfast.__all__ else "", "↻" if passes else "")
        for name, parent, passes in drawn
    ]


def test_the_errors_of_a_store_that_pass_are_marked():
    """Workers, and an enqueue with `retry_for`, try on after those that are drawn and documented so."""
    assert {error.__name__ for error in TRANSIENT_ERRORS} == {
        name for name, parent, passes in drawn_errors() if passes and parent == "StoreError"
    }


def drawn_errors():
    """Yield each error of the drawn tree with the one above it, and whether the same call may succeed later."""
    above = ["StandfastError"]
    for branch in re.finditer(r"^([│ ]*)[├└]── (\w+)( ↻)?", errors.__doc__, re.MULTILINE):
        depth = len(branch[1]) // 4
        above[depth + 1 :] = [branch[2]]
        yield branch[2], above[depth], bool(branch[3])


def test_every_event_is_documented_with_its_fields():
    """The tables of events name each event and what it adds to its kind."""
    tables = table_of("events.md", "event")
    assert {row[0]: set(re.findall(r"`(\w+)`", row[1])) for row in tables} == {
        f"`{event.__name__}`": own_fields(event) for event in told_events()
    }


def test_every_command_and_option_is_documented():
    """The page about the command line has each command, and under its heading each of its options."""
    text = (REFERENCE / "cli.md").read_text()
    common = text.partition("\n## ")[0]
    for path, command in commands(cli, "standfast"):
        assert f"`{path}" in text or f"## {path}\n" in text, path
        top = " ".join(path.split(" ")[:2])
        section = text.partition(f"## {top}\n")[2].partition("\n## ")[0]
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        assert [name for option in options for name in option.opts if name not in common + section] == []


def test_the_fields_and_exit_codes_of_the_command_line_are_documented():
    """What programs rely on stands there in full."""
    text = (REFERENCE / "cli.md").read_text()
    missing = [name for name in JobSeen.__struct_fields__ if f"`{name}`" not in text]
    assert missing == []
    assert {row[0] for row in table_of("cli.md", "code")} == {f"`{code.value}`" for code in ExitCode}


def test_every_cause_that_why_tells_programs_is_documented():
    """The table of causes is the enumeration."""
    assert set(re.findall(r"`(\w+)`", " ".join(row[0] for row in table_of("cli.md", "cause")))) == {*Cause}


def test_the_checks_and_rules_of_alerts_are_documented_as_they_are():
    """The tables are the code: what each check needs, the rules from the start, the options of a rule."""
    checks = {row[0].strip("`"): row[3:] for row in table_of("alerts.md", "check")}
    assert checks == {
        check.value: [needs.unit.value, ", ".join(f"`{name}`" for name in needs.filters)]
        for check, needs in NEEDS.items()
    }
    rules = {row[0].strip("`"): row[1:] for row in table_of("alerts.md", "rule")}
    assert rules == {
        rule.name: [
            "" if rule.above is None else repr(rule.above),
            repr(rule.over) if NEEDS[rule.check].over else "",
            rule.severity.value,
            repr(rule.cool_down),
        ]
        for rule in DEFAULT_RULES
    }
    documented = {}
    for row in table_of("alerts.md", "option"):
        for name in row[0].split(", "):
            documented[name.strip("`")] = row[1].strip("`")
    fields = msgspec.structs.fields(AlertRule)
    assert documented == {field.name: _written(field.default) for field in fields if not field.required}


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("field of a notice", Notice),
        ("field of an alert", Alert),
        ("field of an example", Example),
        ("field of a silence", Silence),
    ],
)
def test_what_alerts_are_for_programs_is_documented(header, kind):
    """Every field that JSON may have, and what it is when it is left out."""
    documented = {}
    for row in table_of("alerts.md", header):
        for name in row[0].split(", "):
            documented[name.strip("`")] = row[1].strip("`")
    fields = msgspec.structs.fields(kind)
    assert documented == {field.name: "" if field.required else _default(field) for field in fields}


def _default(field):
    return _written(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())


def test_the_kinds_of_notices_are_documented():
    """On both pages: for programs, and for those who write templates."""
    kinds = {kind.value for kind in NoticeKind}
    [told] = [row[2] for row in table_of("alerts.md", "field of a notice") if row[0] == "`kind`"]
    [named] = re.findall(
        r"^\| `{kind}` \|(.*)\|$", (ROOT / "docs/howto/alert-channels.md").read_text(), re.MULTILINE
    )
    assert set(re.findall(r"`(\w+)`", told)) == set(re.findall(r"`(\w+)`", named)) == kinds


def test_the_dashboard_is_documented_as_it_is():
    """What it takes, who may do what, and the headers of its answers: the tables are the code."""
    declared = inspect.signature(Dashboard).parameters
    assert {row[0].strip("`"): row[1].strip("`") for row in table_of("dashboard.md", "argument")} == {
        name: repr(declared[name].default).replace("'", '"') for name in list(declared)[1:]
    }
    assert [tuple(row[:3]) for row in table_of("dashboard.md", "operation")] == [
        (f"`{each.name}`", f"`{'POST' if each.changes else 'GET'} {each.path}`", each.role.name.lower())
        for each in OPERATIONS
    ]
    assert {row[0].strip("`"): row[1].strip("`") for row in table_of("dashboard.md", "header")} == dict(HEADERS)
    pages = " ".join(row[0] for row in table_of("dashboard.md", "page"))
    assert [page.path for page in PAGES_OF_DASHBOARD if f"`{page.path.partition('{')[0]}" not in pages] == []


def table_of(page, first_header):
    """Return the rows of every table on the page whose first column is headed so."""
    rows = []
    inside = False
    for line in (REFERENCE / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|- :"):
            rows.append(cells)
        elif cells[0] == first_header:
            inside = True
    assert rows, f"{page} has no table headed {first_header!r}"
    return rows


def family(kind):
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


KINDS_OF_EVENT = (
    events.Event,
    events.JobEvent,
    events.AlertEvent,
    events.ScheduleEvent,
    events.Traced,
    events.WindowEvent,
    events.WorkerEvent,
)


def told_events():
    classes = [member for member in vars(events).values() if isinstance(member, type)]
    return [each for each in classes if issubclass(each, events.Event) and each not in KINDS_OF_EVENT]


def own_fields(event):
    """Return the names of the fields that the event adds to its kind."""
    inherited = {
        field.name for kind in KINDS_OF_EVENT if issubclass(event, kind) for field in msgspec.structs.fields(kind)
    }
    return {field.name for field in msgspec.structs.fields(event)} - inherited


def commands(command, path):
    """Yield each command with the words that call it; a group that does nothing alone is left out."""
    children = command.commands if isinstance(command, click.Group) else {}
    if not children or command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        yield from commands(child, f"{path} {name}")
