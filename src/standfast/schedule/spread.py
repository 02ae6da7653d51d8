"""Numbers drawn from names: they look random, and are the same in every process. Pure."""


def share(among: int, *names: str) -> int:
    """Return one of the whole numbers from 0 to below `among` that names choose."""
    from hashlib import blake2b  # noqa: PLC0415 - only where something is spread

    digest = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return among * int.from_bytes(digest) >> 64
