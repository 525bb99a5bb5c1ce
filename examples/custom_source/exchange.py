"""The prices of the simulated exchange."""

SHARES = {"acorn": 100, "beech": 70, "cedar": 40}


def price_at(share: str, step: int) -> int:
    """The price at a step: it oscillates around the first one."""
    return SHARES[share] + (step * 7) % 11 - (step * 3) % 5
