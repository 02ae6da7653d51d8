"""The page on which people sign in. What they send is read by the entrance."""

from holdfast.dashboard.texts import Texts
from holdfast.dashboard.web.render import environment


def sign_in_page(
    texts: Texts,
    prefix: str = "",
    *,
    users: bool = True,
    token: bool = False,
    next: str = "/",  # noqa: A002 - the name of the field
    problem: str | None = None,
) -> str:
    """Return the page, with the ways in that there are: name and password, or a token; else it tells of links."""
    return (
        environment()
        .get_template("sign-in.html")
        .render(
            t=texts.say,
            language=texts.language,
            prefix=prefix,
            users=users,
            token=token,
            next=next,
            problem=problem,
        )
    )
