"""Keeps Spark from evaluating expensive columns twice: once for a filter, and again for the rows that pass.

Spark pushes a filter below the projection that computes the filtered column, and copies the column's expression
into it (before Spark 4.2, always). For `from_json`, every message is then parsed twice. It does not push a filter on
the output of a generator, so the column goes through one: `explode` of an array with that one value. The
generator costs a few nanoseconds per row. Filters on other columns are pushed as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.plans import analyzed, frame_of_plan, with_children
from headwater.spark.private import JavaObject, items_of, jvm_of, kind_of, scala_object, scala_sequence

_EXPENSIVE = ("JSON_TO_STRUCT", "PYTHON_UDF")
"""Spark's tree patterns of the expressions that must not be evaluated twice."""


def evaluated_once(frame: DataFrame) -> DataFrame:
    """The same rows; a filter on an expensive column uses the value that was already computed."""
    spark, plan = frame.sparkSession, analyzed(frame)
    rewriting = _Rewriting(spark)
    if not rewriting.is_expensive(plan):
        return frame
    rewritten = rewriting.rewritten(plan, frozenset())
    return frame if rewritten is plan else frame_of_plan(spark, rewritten)


@dataclass(frozen=True)
class _Rewriting:
    """One walk through a plan, from the top: it knows the columns that a filter above may be pushed with."""

    spark: SparkSession
    filtered_ctes: dict[int, set[int]] = field(default_factory=dict)
    """The places of the filtered columns of each `WITH` clause, by its ID."""

    @cached_property
    def _catalyst(self) -> JavaObject:
        return jvm_of(self.spark).org.apache.spark.sql.catalyst

    @cached_property
    def _patterns(self) -> list[JavaObject]:
        known = self._catalyst.trees.TreePattern
        return [getattr(known, name)() for name in _EXPENSIVE]

    @cached_property
    def _cte(self) -> JavaObject:
        return self._catalyst.trees.TreePattern.CTE()

    def is_expensive(self, tree: JavaObject) -> bool:
        """Whether a plan or an expression contains an expensive expression."""
        return any(tree.containsPattern(each) for each in self._patterns)

    def rewritten(self, node: JavaObject, filtered: frozenset[int]) -> JavaObject:
        """The node, with a generator above each projection of a filtered, expensive column."""
        kind = kind_of(node)
        if kind == "CTERelationRef":
            places = {place for place, each in enumerate(_ids(node.output())) if each in filtered}
            self.filtered_ctes.setdefault(node.cteId(), set()).update(places)
        if not (self.is_expensive(node) or node.containsPattern(self._cte)):
            return node
        expensive: list[JavaObject] = []
        if kind == "Filter":
            filtered |= _used(node.condition())
        elif kind == "Join":
            # Spark adds `IS NOT NULL` filters for the keys of a join.
            filtered |= {each for part in items_of(node.expressions()) for each in _used(part)}
        elif kind in ("Project", "Aggregate"):
            named = items_of(node.projectList() if kind == "Project" else node.aggregateExpressions())
            chosen = [each for each in named if _id(each) in filtered]
            if kind == "Project":
                expensive = [each for each in chosen if self.is_expensive(each)]
            filtered |= {each for part in chosen for each in _used(part)}
        elif kind == "CollectMetrics":
            # Spark pushes no filter through it.
            filtered = frozenset()
        node = self._above(node, kind, filtered)
        return self._generated(node, expensive) if expensive else node

    def _above(self, node: JavaObject, kind: str, filtered: frozenset[int]) -> JavaObject:
        """The node above its rewritten children."""
        children = items_of(node.children())
        known = [filtered] * len(children)
        if kind == "Union" and filtered:
            # The columns of a union are those of its first child, and by position those of the others.
            outputs = [_ids(child.output()) for child in children]
            places = [place for place, each in enumerate(outputs[0]) if each in filtered]
            known = [frozenset(output[place] for place in places) for output in outputs]
        elif kind == "CTERelationDef":
            output = _ids(children[0].output())
            known = [frozenset(output[place] for place in self.filtered_ctes.get(node.id(), ()))]
        # The last child of `WithCTE` is the plan that uses the others; each of them uses only earlier ones.
        backwards = zip(reversed(children), reversed(known), strict=True)
        new = [self.rewritten(child, ids) for child, ids in backwards][::-1]
        if all(one is other for one, other in zip(children, new, strict=True)):
            return node
        return with_children(self.spark, node, new)

    def _generated(self, project: JavaObject, expensive: list[JavaObject]) -> JavaObject:
        """A projection whose expensive columns go through a generator each; they keep their IDs."""
        logical, expressions = self._catalyst.plans.logical, self._catalyst.expressions
        wanted = project.output()
        renamed = {_id(each): each.newInstance() for each in expensive}
        named = (renamed.get(_id(each), each) for each in items_of(project.projectList()))
        plan = logical.Project(self._sequence(named), project.child())
        none = scala_object(jvm_of(self.spark).scala, "None")
        for each in expensive:
            one = expressions.CreateArray(self._sequence([renamed[_id(each)].toAttribute()]))
            output = self._sequence([each.toAttribute()])
            explode = expressions.Explode(one)
            plan = logical.Generate(explode, self._sequence([]), False, none, output, plan)
        return logical.Project(wanted, plan)

    def _sequence(self, values: Iterable[JavaObject]) -> JavaObject:
        return scala_sequence(self.spark, values)


def _id(named: JavaObject) -> int:
    return int(named.exprId().id())


def _ids(output: JavaObject) -> list[int]:
    return [_id(each) for each in items_of(output)]


def _used(expression: JavaObject) -> frozenset[int]:
    """The IDs of the columns that an expression uses."""
    return frozenset(map(_id, items_of(expression.references().toSeq())))
