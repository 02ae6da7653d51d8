"""The notebook of a cell: what is written goes to the worker in its order, in few words, and answers come back."""

from concurrent.futures import Future

import pytest

from standfast.errors import LostClaimError, StoreError
from standfast.model.job import ClaimRef
from standfast.model.memos import Memo
from standfast.worker.isolation.messages import Asked, FromCell, Noted, Recalled, Wrote
from standfast.worker.isolation.notebook import CellNotebook, answer_cell

REF = ClaimRef("job", 3)


@pytest.fixture
def said() -> list[FromCell]:
    return []


@pytest.fixture
def notebook(said: list[FromCell]) -> CellNotebook:
    return CellNotebook(REF, said.append)


def written(said: list[FromCell]) -> list[tuple[int, tuple[Memo, ...]]]:
    return [(each.ticket, each.memos) for each in said if isinstance(each, Wrote)]


def test_what_is_in_no_hurry_waits_for_the_answer_to_what_is_on_its_way(said, notebook) -> None:
    """Of a thousand saves in a row two are said: the first, and the last."""
    answers = [notebook.write(Memo("cursor", b"%d" % n), hurry=False) for n in range(1_000)]
    assert written(said) == [(1, (Memo("cursor", b"0"),))]
    notebook.heed(Noted(REF, 1))
    assert written(said)[1:] == [(2, (Memo("cursor", b"999"),))]
    assert answers[0].done()
    assert not answers[1].done()
    notebook.heed(Noted(REF, 2))
    assert all(answer.done() for answer in answers)


def test_what_is_in_a_hurry_is_said_at_once_with_what_has_waited(said, notebook) -> None:
    """So that nothing that was written before comes after it."""
    notebook.write(Memo("cursor", b"1"), hurry=False)
    notebook.write(Memo("cursor", b"2"), hurry=False)
    notebook.write(Memo("step:pay", b"x"))
    assert written(said)[1] == (2, (Memo("cursor", b"2"), Memo("step:pay", b"x")))


@pytest.mark.parametrize(("kind", "error"), [("LostClaimError", LostClaimError), ("SchemaError", StoreError)])
def test_an_error_comes_back_as_what_it_is(notebook, kind, error) -> None:
    """For those who write and for those who read."""
    writing, reading = notebook.write(Memo("cursor", b"1")), notebook.read()
    notebook.heed(Noted(REF, 1, kind, "it is gone"))
    notebook.heed(Recalled(REF, 2, kind, "it is gone"))
    for answer in (writing, reading):
        with pytest.raises(error, match="it is gone"):
            answer.result(0)


def test_last_words_are_said_with_what_has_waited(said, notebook) -> None:
    """Once the attempt is over; one that cannot be told does not keep the others."""
    notebook.write(Memo("a", b"1"), hurry=False)
    notebook.write(Memo("b", b"2"), hurry=False)
    notebook.at_end(lambda: [Memo("c", b"3")])
    notebook.at_end(lambda: [Memo("d", b"%d" % "four")])
    notebook.take_last_words()
    assert written(said)[1] == (2, (Memo("b", b"2"), Memo("c", b"3")))
    save = notebook.unwritten()
    assert {memo.name: memo.body for memo in save.memos} == {"a": b"1", "b": b"2", "c": b"3"}


class Kept:
    """A notebook that has it at once."""

    def __init__(self) -> None:
        self.memos: dict[str, bytes] = {}

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":  # noqa: ARG002 - the port's shape
        self.memos |= {memo.name: memo.body for memo in memos}
        answer: Future[None] = Future()
        answer.set_result(None)
        return answer

    def read(self) -> "Future[dict[str, bytes]]":
        answer: Future[dict[str, bytes]] = Future()
        answer.set_result(dict(self.memos))
        return answer


def test_the_worker_does_what_a_cell_wants(said, notebook) -> None:
    """What was written is read again."""
    kept = Kept()
    notebook.write(Memo("cursor", b"1"))
    reading = notebook.read()
    for message in said:
        assert isinstance(message, Asked | Wrote)
        answer_cell(kept, message, notebook.heed)
    assert reading.result(0) == {"cursor": b"1"}


def test_what_goes_with_a_transaction_is_not_said_too(said, notebook) -> None:
    """The worker would write it beside, find the claim ended, and take the job for lost."""
    notebook.at_end(lambda: [Memo("cursor", b"7")])
    save = notebook.unwritten()
    assert save.memos == (Memo("cursor", b"7"),)
    assert said == []
    notebook.take_last_words()
    assert written(said) == [(1, (Memo("cursor", b"7"),))]
