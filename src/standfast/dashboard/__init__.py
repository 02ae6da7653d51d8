"""The dashboard: what people see of an app in a browser, and what they do about it.

    browser ─► serving ─► access: who is it? ─► web: pages ─┐
    program ─► serving ─► access: who is it? ─► api: JSON ──┴─► admin: operations ─► store

An operation is a function with a name, a path and a role. Pages, JSON API and live updates call the same ones;
`Admin` shares reads among all who look, checks roles, and writes the audit.
"""

from typing import TYPE_CHECKING, Any

from standfast.admin.operation import Role, User
from standfast.model.display import install

if TYPE_CHECKING:
    from standfast.dashboard.dashboard import Dashboard


__all__ = ["Dashboard", "Role", "User"]


def __getattr__(name: str) -> Any:
    """Import the dashboard when it is asked for: it needs the extra `web`, and what is beside it does not."""
    if name != "Dashboard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from standfast.dashboard.dashboard import Dashboard  # noqa: PLC0415 - that is what this is for
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "standfast":
            raise
        raise ModuleNotFoundError(
            f"the dashboard needs {error.name}: install it with `{install('web')}`", name=error.name
        ) from error
    return Dashboard
