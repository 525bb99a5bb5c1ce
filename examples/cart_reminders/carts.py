"""Shopping carts: their items, viewed products, a daily reminder, and sold products."""

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor

HOUR = 60 * 60 * 1000
DAY = 24 * HOUR


class Cart(StatefulProcessor):
    """The cart of one user."""

    def init(self, handle) -> None:
        self.handle = handle
        self.items = handle.getMapState("items", "product string", "n int")
        self.viewed = handle.getListState("viewed", "product string", ttlDurationMs=HOUR)
        self.reminders = handle.getValueState("reminders", "n int")

    def handleInitialState(self, key, initialState, timerValues) -> None:
        """Called in the first batch, once for each row of the initial state."""
        self.items.updateValue((initialState.product,), (initialState.n,))
        self._remind(timerValues)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            match row.action:
                case "view":
                    self.viewed.appendValue((row.product,))
                case "add":
                    before = self.items.getValue((row.product,)) or (0,)
                    self.items.updateValue((row.product,), (before[0] + row.n,))
                    self._remind(timerValues)
                case "pay":
                    yield from self._paid(key[0])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        """Send a reminder every day until the cart is empty."""
        (before,) = self.reminders.get() or (0,)
        self.reminders.update((before + 1,))
        self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + DAY)
        yield Row(user=key[0], says="reminder", product=None, n=before + 1)

    def _remind(self, timer_values) -> None:
        """Start the reminders unless they have started."""
        if not list(self.handle.listTimers()):
            self.handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + DAY)

    def _paid(self, user: str) -> Iterator[Row]:
        """Emit a row per product sold, and one per product viewed in the last hour but not bought."""
        sold = {product: n for (product,), (n,) in self.items.iterator()}
        for product, n in sold.items():
            yield Row(user=user, says="sold", product=product, n=n)
        for (product,) in self.viewed.get():
            if product not in sold:
                yield Row(user=user, says="also viewed", product=product, n=None)
        for state in (self.items, self.viewed, self.reminders):
            state.clear()
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)


def carts(actions: DataFrame, saved_carts: DataFrame) -> DataFrame:
    return actions.groupBy("user").transformWithState(
        Cart(),
        outputStructType="user string, says string, product string, n int",
        outputMode="append",
        timeMode="processingTime",
        initialState=saved_carts.groupBy("user"),
    )
