"""SQL that is certainly wrong, and SQL that only Spark can judge."""

from __future__ import annotations

import pytest

from headwater.plan.graph import NotSql, sql_references
from tests.statements import GOOD, UNDECIDED, WRONG


@pytest.mark.parametrize(("sql", "line", "column", "says"), WRONG)
def test_what_is_certainly_wrong(sql: str, line: int, column: int, says: str) -> None:
    with pytest.raises(NotSql) as wrong:
        sql_references(sql)
    fault = wrong.value.fault
    assert (fault.line, fault.column) == (line, column)
    assert says in f"{fault.says} {fault.hint}"


@pytest.mark.parametrize("sql", [*GOOD, *UNDECIDED])
def test_what_is_not_certainly_wrong(sql: str) -> None:
    sql_references(sql)
