"""Price limits of impressions."""

LIMITS = {"spring": 2.0}
OTHERWISE = 1.0


def limit(campaign: str) -> float:
    """The maximum price of one impression of a campaign."""
    return LIMITS.get(campaign, OTHERWISE)
