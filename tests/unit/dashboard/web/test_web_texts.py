"""The texts are complete: the same in every language, and templates say what is among them and nothing else."""

import re
import string
from pathlib import Path

import pytest
from jinja2 import nodes
from web_samples import ACTS

from standfast.admin.registry import OPERATIONS
from standfast.dashboard.texts import LANGUAGES, preferred, texts_in
from standfast.dashboard.web.pages import PAGES
from standfast.dashboard.web.render import MENU, TEMPLATES, environment
from standfast.model.alerts import AlertState, Check, NoticeKind, Severity
from standfast.model.incidents import Trouble
from standfast.model.phrases import Texts
from standfast.model.records import Decision, FireCause
from standfast.model.states import State
from standfast.observe.alerts.alert_rules import Unit
from standfast.observe.obstacles import Cause

ENGLISH = dict(texts_in("en"))
SOURCES = sorted(TEMPLATES.glob("*.html"))
TOLD = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
SPOKEN = re.compile(r'\b(title|placeholder|aria-label|alt|value)="([^"]*)"')
WORDLESS = {"abbr"}


def params(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_have_the_same_texts_about_the_same(language):
    texts = dict(texts_in(language))
    assert texts.keys() == ENGLISH.keys()
    for key, text in texts.items():
        assert text.strip(), key
        assert params(text) == params(ENGLISH[key]), key


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_templates_say_nothing_by_themselves(source: Path):
    text = TOLD.sub("", source.read_text())
    bare = re.sub(r"<[^>]*>", " ", text)
    assert not re.search(r"[A-Za-z]{2,}", bare), bare
    assert [spoken for _, spoken in SPOKEN.findall(text) if re.search(r"[A-Za-z]", spoken) and " " in spoken] == []


def test_what_templates_say_is_there():
    for source in SOURCES:
        tree = environment().parse(source.read_text())
        for call in tree.find_all(nodes.Call):
            if (
                isinstance(call.node, nodes.Name)
                and call.node.name == "t"
                and isinstance(call.args[0], nodes.Const)
            ):
                assert Texts("en", ENGLISH).knows(call.args[0].value), f"{source.name}: {call.args[0].value}"


def test_whatever_can_be_is_named():
    keys = [
        *(f"state.{state.value}" for state in State),
        *(f"trouble.{trouble.value}" for trouble in Trouble),
        *(f"decision.{decision.value}" for decision in Decision),
        *(f"cause.{cause.value}" for cause in FireCause),
        *(f"why.{cause.value}" for cause in Cause),
        *(f"check.{check.value}" for check in Check),
        *(f"severity.{severity.value}" for severity in Severity),
        *(f"alert_state.{state.value}" for state in AlertState),
        *(f"notice.{kind.value}" for kind in NoticeKind),
        *(f"limit.{unit.name.lower()}" for unit in Unit if unit is not Unit.NOTHING),
        *(f"limit_name.{unit.name.lower()}" for unit in Unit if unit is not Unit.NOTHING),
        *(f"nav.{name}" for part in MENU for name, _ in part),
        *(f"page.{page.name}" for page in PAGES),
        *(f"{what}.{operation.name}" for operation in OPERATIONS if operation.changes for what in ("act", "done")),
        *(f"{what}.{name}" for name in ACTS for what in ("act", "done")),
    ]
    assert [key for key in keys if not Texts("en", ENGLISH).knows(key)] == []


def test_numbers_have_their_forms():
    texts = texts_in("en")
    assert (texts.say("overview.workers", n=1), texts.say("overview.workers", n=3)) == ("1 worker", "3 workers")
    with pytest.raises(KeyError, match=r"en has no text 'no\.such'"):
        texts.say("no.such")


@pytest.mark.parametrize(
    ("asked", "kept", "accepted", "language"),
    [
        (None, None, None, "en"),
        (None, None, "zh-TW,zh;q=0.9,en;q=0.8", "zh-Hant"),
        (None, None, "fr, en;q=0.5, zh;q=0.9", "zh-Hant"),
        (None, None, "fr;q=x, zh;q=0, *", "en"),
        (None, "zh-Hant", "en", "zh-Hant"),
        ("en-GB", "zh-Hant", "zh", "en"),
        ("../../etc", "%00", ",,;;q=", "en"),
    ],
)
def test_the_language_is_the_one_that_was_wished_for(asked, kept, accepted, language):
    assert preferred(asked, kept, accepted) == language
