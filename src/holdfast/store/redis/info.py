"""What a server says of itself."""


def parse_info(reply: bytes) -> dict[str, str]:
    """Return the reply to INFO as names and values."""
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
