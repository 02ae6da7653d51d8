"""Phrases: equal where they say the same, complete in every language, and read back from what was stored."""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import standfast
from standfast.dashboard import texts
from standfast.dashboard.texts import LANGUAGES, texts_in
from standfast.dashboard.web.formatting import Formatter
from standfast.errors import JobStateError
from standfast.model.job import JobAction
from standfast.model.phrases import (
    PHRASE_TEXTS,
    Dated,
    Nth,
    Phrase,
    english_renderer,
    listed,
    ordinal,
    phrase_in,
    stored_phrase,
    texts_below,
)
from standfast.model.states import State
from standfast.stores.refusals import not_changed
from standfast.stores.values import JobOutcome

NOW = datetime(2026, 5, 4, 14, 3, 4, tzinfo=UTC)
OWN = Path(texts.__file__).parent
FIRES = ("fired", "excluded", "weekday", "state")
WINDOWS = ("window", "list.last", "list.next", "weekdays", "month")


def test_phrases_of_the_same_content_are_equal_and_never_change():
    one, same = Phrase("obstacle.ahead", n=3), Phrase("obstacle.ahead", n=3)
    assert one == same
    assert len({one, same, Phrase("obstacle.ahead", n=4), Phrase("obstacle.busy", n=3)}) == 3
    assert one != "3 jobs"
    with pytest.raises(AttributeError):
        one.code = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        one.params["n"] = 4  # type: ignore[index]


def test_a_phrase_is_said_in_the_form_of_its_number():
    assert str(Phrase("obstacle.ahead", n=1)).startswith("1 job of its queue")
    assert str(Phrase("obstacle.ahead", n=1200)).startswith("1,200 jobs of its queue")


def test_what_it_is_about_is_said_in_the_same_language():
    phrase = Phrase("because.silent", silent=timedelta(seconds=200), left=timedelta(seconds=3))
    assert "3 min 20 s; its lease ends in 3 s" in str(phrase)
    assert (
        Formatter(texts_in("zh-Hant")).say(phrase) == "該工作者已有 3 分 20 秒 沒有回應；其租約將在 3 秒 後到期。"
    )
    assert str(Phrase("list.one", it=NOW)) == "2026-05-04 14:03:04 UTC"
    assert str(listed(["a", Phrase("list.one", it=Nth(2)), 3])) == "a, 2nd and 3"
    assert [str(ordinal(number)) for number in (1, 11, 22)] == ["first", "11th", "22nd"]


def test_on_pages_what_others_wrote_is_escaped_and_times_are_elements():
    saying = Formatter(texts_in("zh-Hant"))
    told = saying.say(Phrase("obstacle.paused", queue="<b>", since=Dated(NOW, NOW)))
    assert told.startswith("佇列「&lt;b&gt;」已於 <time datetime=")
    assert saying.plain(Phrase("refusal.no_queue", queue="<b>")).startswith("沒有佇列「<b>」")
    assert saying.first(Phrase("list.one", it="<script>")) == "&lt;script&gt;"


def test_an_error_says_its_phrase():
    refused = not_changed(JobAction.DISCARD, "7", JobOutcome(changed=False, state=State.READY))
    assert phrase_in(refused).code == "refusal.not_discarded"
    assert str(refused).startswith("job 7 is ready: only a dead job can be discarded")
    assert phrase_in(JobStateError("so")) == Phrase("list.one", it="so")
    assert str(phrase_in(JobStateError("so", 1))) == "('so', 1)"


@pytest.mark.parametrize(
    ("text", "sections", "chinese"),
    [
        ("Saturday", FIRES, "週六"),
        ("paused: the disk is full", FIRES, "已暫停：the disk is full"),
        ("a run before it was not over (job 7, running)", FIRES, "前一次執行當時尚未結束（工作 7，執行中）"),
        (
            "a run before it was not over (job 7, just fired and 2 more), and one waits already",
            FIRES,
            "前一次執行當時尚未結束（工作 7，剛觸發，另有 2 個），且已有一個在等待",
        ),
        ("2026-12-25 is a holiday: Christmas", FIRES, "2026-12-25 為假日：Christmas"),
        ("the disk is full", FIRES, "the disk is full"),
        ("1 job counted", ("noted",), "計數 1 個工作"),
        ("1,200 jobs enqueued", ("noted",), "加入 1,200 個工作"),
        ("03:00–03:15 UTC", WINDOWS, "03:00–03:15（UTC）"),
        (
            "1 at 09:00–17:00 Asia/Taipei on Mondays and Fridays in March",
            ("limit", *WINDOWS),
            "3 月每週一、週五 09:00–17:00（Asia/Taipei）最多 1 個",
        ),
        ("x" * 3000, FIRES, "x" * 3000),
    ],
)
def test_what_was_stored_in_english_is_read_back(text, sections, chinese):
    """And is said in English just as it was written."""
    phrase = stored_phrase(text, *sections)
    assert str(phrase) == text
    assert Formatter(texts_in("zh-Hant")).say(phrase) == chinese


@pytest.mark.parametrize("language", LANGUAGES)
def test_phrases_and_pages_have_no_text_in_common(language):
    """Or one of them would be said in place of the other."""
    assert not dict(texts_below(PHRASE_TEXTS, language)).keys() & dict(texts_below(OWN, language)).keys()


def test_every_phrase_in_the_code_has_words():
    known, used = texts_below(PHRASE_TEXTS, "en"), set()
    for file in Path(standfast.__file__).parent.rglob("*.py"):
        source = file.read_text()
        for node in ast.walk(ast.parse(source)) if "Phrase(" in source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Phrase":
                code = node.args[0]
                either = (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,)
                used |= {each.value for each in either if isinstance(each, ast.Constant)}
    assert len(used) > 150
    assert sorted(code for code in used if not known.knows(code)) == []


def test_english_is_said_by_one():
    assert english_renderer() is english_renderer()
