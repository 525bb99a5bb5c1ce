"""What is wrong with a finding that is accepted."""

from headwater.errors.problems import Entry

ACCEPT_UNKNOWN = Entry(
    "HW-ACCEPT-UNKNOWN",
    "No check ever finds `{code}`, which {where} accepts.",
    "{hint} The page of rules lists the codes.",
)
ACCEPT_REFUSED = Entry(
    "HW-ACCEPT-REFUSED",
    "{where} accepts `{code}`, which can't be accepted: {says}.",
    "Take it out of `accept`, and do what the error itself says.",
)
ACCEPT_UNMATCHED = Entry(
    "HW-ACCEPT-UNMATCHED",
    "{where} accepts `{code}`, and the check finds nothing of that there.",
    "Take it out of `accept`, so that it does not hide what comes later.",
)
