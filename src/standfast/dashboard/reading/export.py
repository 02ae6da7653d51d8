"""Files of jobs, written while they are read: one page of them is in memory at a time, however many there are."""

import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from standfast.core.job import Job
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.selecting import SPAN, Found, pages_of, select
from standfast.dashboard.reading.shown import args_seen, value_seen
from standfast.dashboard.shapes.jobs import ExportAsked, JobRow, JobsExported
from standfast.phrases import in_english

_COLUMNS = tuple(field.name for field in msgspec.structs.fields(JobRow) if field.name not in {"progress", "tags"})
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a file is written: what it begins and ends with, and what stands between two pages of jobs."""

    name: str
    type: str
    write: Callable[[Sequence[Job]], str]
    head: str
    between: str
    end: str


@reads("jobs.export", "/jobs/export", shared=False)
async def export_jobs(desk: Desk, asked: ExportAsked) -> JobsExported:
    """Write jobs out as a file, newest first; secret arguments are masked.

    A file with as many jobs as its limit may not have all: what follows begins `before` the id of its last one.
    """
    selection = await select(desk, asked)
    pages = pages_of(desk, selection.below(asked.before or None), asked.limit)
    first = await anext(pages)  # before anything is sent: what is wrong can still be told
    form = _FORMS[asked.format]
    return JobsExported(
        name=form.name,
        type=form.type,
        limit=asked.limit,
        span=None if selection.wanted is None else SPAN,
        parts=_written(form, first, pages),
    )


async def _written(form: _Form, first: Found, others: AsyncIterator[Found]) -> AsyncIterator[str]:
    written = form.write(first.jobs)
    yield form.head + written
    between = form.between if first.jobs else ""
    async for found in others:
        if found.jobs:
            yield between + form.write(found.jobs)
            between = form.between
    yield form.end


def _json_page(jobs: Sequence[Job]) -> str:
    return ",\n".join(map(_json_row, jobs))


def _json_row(job: Job) -> str:
    row = {
        **msgspec.structs.asdict(job_row(job)),
        "args": args_seen(job.payload)[0],
        "result": None if job.result is None else value_seen(job.result),
    }
    return msgspec.json.encode(row, enc_hook=in_english).decode()


def _csv_page(jobs: Sequence[Job]) -> str:
    return _csv_lines(map(_csv_row, jobs))


def _csv_row(job: Job) -> Sequence[object]:
    row = job_row(job)
    fields = msgspec.to_builtins(row, enc_hook=in_english)
    return [*(fields[name] for name in _COLUMNS), " ".join(row.tags)]


def _csv_lines(rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(map(cell, row) for row in rows)
    return out.getvalue()


def cell(value: object) -> str:
    """Return a value that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) and not _NUMBER.fullmatch(text) else text


_FORMS = {
    "csv": _Form(
        "jobs.csv", "text/csv; charset=utf-8", _csv_page, _csv_lines([[*_COLUMNS, "tags"]]), between="", end=""
    ),
    "json": _Form("jobs.json", "application/json", _json_page, head="[", between=",\n", end="]\n"),
}
