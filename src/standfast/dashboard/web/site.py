"""What the pages are given, and one view of a page by one person."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection, Request

from standfast.admin.executor import OperationContext
from standfast.admin.operation import Operation
from standfast.dashboard.texts import LANGUAGE_COOKIE, preferred, texts_in
from standfast.dashboard.transport import asked_by_fields
from standfast.model.phrases import Texts

_SAFE_IN_PATHS = ""


def texts_for(request: HTTPConnection, at: str = "") -> Texts:
    """Return the texts in the language that somebody asked for, has chosen before, or likes best.

    `at` is the address of the page that they look at, where that is not what is requested.
    """
    asked = request.query_params.get("lang") or QueryParams(at.partition("?")[2]).get("lang")
    return texts_in(preferred(asked, request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language")))


def _never(_request: Request) -> bool:
    return False


async def _still(_request: Request) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages are given.

    `context_of` serves whoever was let in with a request. `csrf_of` is the token that goes with their forms.
    `still_in` tells whether a session goes on, for those who watch; `may_sign_out` whether one can be ended here.
    """

    operations: Mapping[str, Operation[Any, Any]]
    context_of: Callable[[Request], OperationContext]
    texts_of: Callable[[HTTPConnection, str], Texts] = texts_for
    csrf_of: Callable[[Request], str] = lambda _: ""
    still_in: Callable[[Request], Awaitable[bool]] = _still
    may_sign_out: Callable[[Request], bool] = _never

    def below(self, request: HTTPConnection) -> str:
        """Return what stands before the path of every page."""
        return str(request.scope.get("root_path", "")).rstrip("/")


@dataclass(frozen=True, slots=True)
class View:
    """One look at one page by one person."""

    site: Site
    context: OperationContext
    texts: Texts
    prefix: str
    csrf: str
    path: str = "/"
    query: QueryParams = field(default_factory=QueryParams)
    names: Mapping[str, str] = field(default_factory=dict)
    """What the path names, such as the id of a job."""
    may_sign_out: bool = False

    @property
    def here(self) -> str:
        """The page with all that is asked of it, below the prefix, as an address has it."""
        path = quote(self.path)
        return f"{path}?{self.query}" if self.query else path

    def href(self, path: str, *names: object, **query: object) -> str:
        """Return the address of a page; each {} in its path is one of the names."""
        told = path.format(*(quote(str(name), safe=_SAFE_IN_PATHS) for name in names))
        asked = urlencode([(key, value) for key, given in query.items() for value in _all(given)])
        return f"{self.prefix}{told}{'?' if asked else ''}{asked}"

    def with_query(self, **changed: object) -> str:
        """Return the address of this page with something else asked; None leaves it out. Pages start anew."""
        kept = [(key, value) for key, value in self.query.multi_items() if key not in {*changed, "before"}]
        kept += [(key, str(value)) for key, given in changed.items() for value in _all(given)]
        return f"{self.prefix}{self.path}{'?' if kept else ''}{urlencode(kept)}"

    def may(self, name: str) -> bool:
        """Tell whether this person may use an operation, by its name."""
        operation = self.site.operations.get(name)
        return operation is not None and self.context.may(operation)

    async def read(self, name: str, /, **fields: object) -> Any:
        """Return what an operation has to say."""
        operation = self.site.operations[name]
        items = [(key, str(value)) for key, given in fields.items() for value in _all(given)]
        return await self.context.read(operation, asked_by_fields(operation.asked, items))

    async def read_query(self, name: str) -> Any:
        """Return what an operation has to say to what the address asks."""
        return await self.read(name, **self.asked(self.site.operations[name]))

    def asked(self, operation: Operation[Any, Any]) -> dict[str, object]:
        """Return what the address asks of an operation; empty fields of a form ask nothing."""
        return form_fields(operation.asked, self.query.multi_items())


def _all(given: object) -> Sequence[object]:
    if given is None or given == "":
        return ()
    return list(given) if isinstance(given, list | tuple) else (given,)


def form_fields(kind: type[msgspec.Struct], items: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return what a form or an address says about the fields of what is asked; all else is not for it."""
    several = {each.name: _is_several(each.type) for each in msgspec.structs.fields(kind)}
    found: dict[str, Any] = {}
    for name, value in items:
        if name not in several or not value.strip():
            continue
        if several[name]:
            found.setdefault(name, []).append(value.strip())
        else:
            found[name] = value.strip()
    return found


def _is_several(kind: Any) -> bool:
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.VarTupleType)
