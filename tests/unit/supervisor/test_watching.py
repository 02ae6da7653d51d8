"""Which changes of an app's files are seen, and which files are none of its."""

import asyncio
from pathlib import Path

import pytest

from standfast.supervisor.plan import FileWatch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("jobs.py", "shop/mail.py", "shop/page.html", ".hidden/a.py", "node_modules/b.py", "env/lib/c.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    return tmp_path


def test_the_python_files_of_the_app_and_no_others(folder: Path) -> None:
    assert sorted(FileWatch(folder).look()) == ["jobs.py", "shop/mail.py"]


def test_there_is_an_end_to_looking_and_it_is_told_once(folder: Path, caplog) -> None:
    watch = FileWatch(folder, most=1)
    assert len(watch.look()) == len(watch.look()) == 1
    assert caplog.text.count("has more than 1 .py files") == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda folder: (folder / "shop/mail.py").write_text("x = 1"), "shop/mail.py"),
        (lambda folder: (folder / "new.py").write_text(""), "new.py"),
        (lambda folder: (folder / "jobs.py").unlink(), "jobs.py"),
    ],
)
def test_a_change_is_told_by_name(folder: Path, change, name: str) -> None:
    async def story() -> str:
        changes = FileWatch(folder).changes()
        seen = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.7)
        change(folder)
        try:
            async with asyncio.timeout(30):
                return await seen
        finally:
            await changes.aclose()

    assert asyncio.run(story()) == name
