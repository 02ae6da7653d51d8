"""Turns a page and what it shows into HTML."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from standfast.admin.fields import ValueSeen
from standfast.admin.operation import status_of
from standfast.dashboard.texts import LANGUAGES
from standfast.dashboard.web import assets
from standfast.dashboard.web.charts import bar, gauge, sparkline
from standfast.dashboard.web.formatting import (
    Formatter,
    coloured,
    plain_number,
    plain_span,
    told_time,
    with_commands,
    with_times,
    zoned_time,
)
from standfast.dashboard.web.site import View
from standfast.errors import StandfastError
from standfast.model.display import one_line, short_id
from standfast.model.memos import signal_name
from standfast.model.phrases import Texts, phrase_in
from standfast.settings import IN_CODE

TEMPLATES = Path(__file__).parent / "templates"

MENU = (
    (("overview", "/"), ("jobs", "/jobs"), ("dead", "/dead"), ("queues", "/queues"), ("schedules", "/schedules")),
    (("workers", "/workers"), ("tasks", "/tasks"), ("locks", "/locks")),
    (("alerts", "/alerts"), ("incidents", "/incidents"), ("objectives", "/objectives")),
    (("audit", "/audit"), ("settings", "/settings")),
)
"""The navigation: what belongs together stands together."""


@cache
def environment() -> Environment:
    """Return the templates. What they use and nobody gave is an error, and all they write is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        asset=assets.address,
        bar=bar,
        gauge=gauge,
        sparkline=sparkline,
        time=told_time,
        zoned=zoned_time,
        times=with_times,
        json=coloured,
        written=as_written,
        has_secret=has_secret,
        inside=quoted,
        commands=with_commands,
        in_code=IN_CODE,
        signal=signal_name,
    )
    made.filters.update(one_line=one_line, short_id=short_id, plain=plain_number, plain_span=plain_span)
    return made


def rendered(view: View, template: str, shown: Mapping[str, Any], *, frame: bool = False) -> str:
    """Return a page, or with `frame` only what changes meanwhile: title, verdict, navigation and main."""
    saying = Formatter(view.texts)
    return (
        environment()
        .get_template(f"{template}.html")
        .render(
            **{"problem": None, "overview": None, "said": None, "menu_at": "", **shown},
            v=view,
            t=view.texts.say,
            known=view.texts.knows,
            say=saying,
            words=saying.told,
            href=view.href,
            may=view.may,
            languages=LANGUAGES,
            menu=MENU,
            frame=frame,
            page=template,
        )
    )


def as_written(args: Mapping[str, ValueSeen]) -> str:
    """Return arguments as JSON to be changed by hand, without those that are secret."""
    shown = {name: each.value for name, each in args.items() if not each.secret}
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def has_secret(args: Mapping[str, ValueSeen]) -> bool:
    """Tell whether any argument is one that nobody is to see."""
    return any(each.secret for each in args.values())


def quoted(path: str) -> str:
    """Return a path that an operation named, with what is in it quoted."""
    return quote(path, safe="/?=&")


async def page_of(view: View, template: str, shown: Mapping[str, Any], *, frame: bool = False) -> str:
    """Return a page with the verdict in its frame."""
    try:
        overview = await view.read("overview.show")
    except StandfastError:
        overview = None
    return rendered(view, template, {"overview": overview, **shown}, frame=frame)


async def problem_of(view: View, error: StandfastError, *, frame: bool = False) -> tuple[str, int]:
    """Return the page that says what is wrong, and its status."""
    status = status_of(error)
    shown = {"problem": phrase_in(error), "status": int(status)}
    return await page_of(view, "error", shown, frame=frame), int(status)


def sign_in_page(
    texts: Texts,
    prefix: str = "",
    *,
    users: bool = True,
    token: bool = False,
    link: bool = False,
    printed: bool = False,
    next: str = "/",  # noqa: A002 - the name of the field
    name: str = "",
    problem: str | None = None,
) -> str:
    """Return the page, with the ways in that there are: name and password, a token, a link that can be printed."""
    return (
        environment()
        .get_template("sign-in.html")
        .render(
            t=texts.say,
            language=texts.language,
            prefix=prefix,
            users=users,
            token=token,
            link=link,
            printed=printed,
            next=next,
            name=name,
            problem=problem,
        )
    )
