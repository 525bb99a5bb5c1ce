"""What the made-up exchange knows."""

SHARES = {"acorn": 100, "beech": 70, "cedar": 40}


def price_at(share: str, step: int) -> int:
    """The price at a step: it goes up and down around the first one."""
    return SHARES[share] + (step * 7) % 11 - (step * 3) % 5
