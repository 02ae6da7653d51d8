"""A page of HTML, as a test reads it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The words of a page, its cells, and all that it could load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.inside = False
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in {"src", "href"} or name.startswith("on")]
        if tag == "td":
            self.inside = True
            self.cells.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "td"

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data
