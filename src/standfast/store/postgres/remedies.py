"""What gives a user the rights that jobs take, in the words of every place that says so. Pure."""


def let_in(schema: str) -> str:
    """Return what lets a user work with a schema that is there."""
    return f"let its owner run {_grants(schema)}"


def make(schema: str) -> str:
    """Return what makes a schema where the user may not, and lets the user in."""
    return (
        "let a user who may create schemas run `standfast migrate`, or what `standfast migrate --plan` prints, then"
        f" {_grants(schema)}"
    )


def _grants(schema: str) -> str:
    return (
        f'GRANT USAGE ON SCHEMA "{schema}" TO …;'
        f' GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO …;'
        f' GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{schema}" TO …'
    )
