"""What an impression may cost."""

LIMITS = {"spring": 2.0}
OTHERWISE = 1.0


def limit(campaign: str) -> float:
    """The most that one impression of a campaign may cost."""
    return LIMITS.get(campaign, OTHERWISE)
