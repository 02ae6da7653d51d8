"""Pages for people: what operations answer, as HTML that stays up to date by itself.

Site: operations, context, texts, tokens ─► routes(site)
GET page ─► answering ─► pages: operations read ─► render: templates, charts ─► HTML
GET /live?at=page ─► live ─► the same, whenever it has changed
POST /do/operation ─► doing ─► back to the page, which says what was done
"""
