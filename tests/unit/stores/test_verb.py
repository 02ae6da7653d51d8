"""The decorator that makes a generator method a verb."""

import pytest

from standfast.stores.verb import Access, Command, Query, Steps, Verb, verb


class _Store:
    """A store with two verbs."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @verb(Access.WRITE, wakes=True)
    def rename(self, old: str, *, new: str) -> Steps[int]:
        """Rename something."""
        self.calls.append(old)
        rows = yield Query("SELECT 1", (old,))
        changed: int = yield Command("UPDATE", (new, rows))
        return changed

    @verb(Access.READ)
    def look(self) -> Steps[None]:
        yield Query("SELECT 2")


def test_a_call_returns_a_verb_of_its_name() -> None:
    """A verb knows its name, the transaction it needs and whether it wakes workers."""
    made = _Store().rename("a", new="b")
    assert isinstance(made, Verb)
    assert (made.name, made.access, made.wakes) == ("rename", Access.WRITE, True)
    assert not _Store().look().wakes


def test_nothing_happens_before_a_driver_runs_it() -> None:
    """Making a verb is free of effects."""
    store = _Store()
    made = store.rename("a", new="b")
    assert store.calls == []
    next(made.steps)
    assert store.calls == ["a"]


def test_steps_take_answers_and_return() -> None:
    """A driver sends each answer back and gets the verb's own in the end."""
    steps = _Store().rename("a", new="b").steps
    assert next(steps) == Query("SELECT 1", ("a",))
    assert steps.send(["row"]) == Command("UPDATE", ("b", ["row"]))
    with pytest.raises(StopIteration) as stop:
        steps.send(3)
    assert stop.value.value == 3


def test_the_method_keeps_its_name_and_words() -> None:
    """Help and error messages show the method as it was written."""
    assert _Store.rename.__name__ == "rename"
    assert _Store.rename.__doc__ == "Rename something."
