"""The steps of a test as they are written in a test file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwater.errors.catalogue.testing_files import (
    TEST_STEP_EMPTY,
    TEST_STEP_WORD,
    TEST_TWO_ACTIONS,
)
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode
from headwater.testing.reading import Reader, is_nothing
from headwater.testing.steps import (
    Advance,
    ChangeTo,
    Check,
    Crash,
    Feed,
    Restart,
    Row,
    Start,
    Step,
    Stop,
)
from headwater.values import Duration, nearest

WORDS: Mapping[str, Callable[..., Step]] = {
    "restart": Restart,
    "stop": Stop,
    "start": Start,
    "crash": Crash,
}
EXAMPLES = {
    "feed": "feed: {words: [{word: owl}]}",
    "advance": "advance: 2 hours",
    "change_to": "change_to: version2.yml",
}
ACTIONS = ("feed", "advance", *WORDS, "change_to")
CHECKS = ("expect", "watermark", "late", "state", "idle", "fails")


class StepReader:
    """Reads steps, and gives every problem to the reader of the file."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def step(self, node: Node) -> Step | None:
        """One step; None where it is wrong."""
        if isinstance(node, MappingNode):
            return self._mapping(node)
        if is_nothing(node):
            self._empty(node)
        elif isinstance(node, ScalarNode) and node.text in WORDS:
            return WORDS[node.text](place=node.position)
        else:
            self._no_word(node)
        return None

    def _mapping(self, node: MappingNode) -> Step | None:
        self.reader.unknown(node, (*ACTIONS, *CHECKS), "a step")
        actions = [pair for pair in node.pairs if pair.key in ACTIONS]
        checks = self._checks([pair for pair in node.pairs if pair.key in CHECKS])
        if not node.pairs:
            self._empty(node)
        for other in actions[1:]:
            first, second = actions[0].key, other.key
            self.reader.problems.append(TEST_TWO_ACTIONS.at(other.key_position, first=first, second=second))
        # Every action is read, so that each mistake is told.
        made = [self._action(action, {**checks, "place": node.position}) for action in actions]
        return made[0] if made else Check(**checks, place=node.position)

    def _action(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        match pair.key:
            case "feed":
                return self._feed(pair, checks)
            case "advance":
                return self._advance(pair, checks)
            case "change_to":
                return self._change_to(pair, checks)
            case word:
                if pair.node.value is not True:
                    hint = f"Write `- {word}`, or with checks `- {{{word}: true, expect: …}}`."
                    self.reader.wrong(pair, "`true` is all that can stand here", hint)
                return WORDS[word](**checks)

    def _feed(self, pair: Pair, checks: dict[str, Any]) -> Step:
        rows = self.reader.by_name(
            pair, EXAMPLES["feed"], lambda each: self.reader.rows(each, f"`feed` to `{each.key}`")
        )
        if isinstance(pair.node, MappingNode) and not pair.node.pairs:
            self.reader.wrong(pair, "it names no source", f"Write `{EXAMPLES['feed']}`.")
        return Feed(rows, **checks)

    def _advance(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        by = self.reader.text(pair, EXAMPLES["advance"])
        if by is None:
            return None
        try:
            Duration.parse(by)
        except ValueError as error:
            self.reader.wrong(pair, str(error).rstrip("."), f"Write for instance `{EXAMPLES['advance']}`.")
        return Advance(by, **checks)

    def _change_to(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        written = self.reader.text(pair, EXAMPLES["change_to"])
        if written is None:
            return None
        return ChangeTo(self.reader.pipeline(pair, written), **checks)

    def _checks(self, pairs: list[Pair]) -> dict[str, Any]:
        """What must be true after the step; what is wrong is left out."""
        read: dict[str, Callable[[Pair], Any]] = {
            "expect": self._expect,
            "watermark": self._watermark,
            "late": self._late,
            "state": self._state,
            "idle": self._idle,
            "fails": self._fails,
        }
        found: dict[str, Any] = {}
        for pair in pairs:
            before = len(self.reader.problems)
            value = read[pair.key](pair)
            if len(self.reader.problems) == before:
                found[pair.key] = value
        return found

    def _expect(self, pair: Pair) -> Any:
        example = "expect: {counts: [{word: owl, n: 1}]}"
        return self.reader.by_name(
            pair, example, lambda each: self.reader.rows(each, f"`expect` of `{each.key}`")
        )

    def _watermark(self, pair: Pair) -> Any:
        if isinstance(pair.node, MappingNode):
            return {each.key: self._mark(each) for each in pair.node.pairs}
        return self._mark(pair)

    def _mark(self, pair: Pair) -> str | None:
        if is_nothing(pair.node) or pair.node.value == "none":
            return None
        return self.reader.time(pair, f"{pair.key}: 12:04` or, before there is one, `{pair.key}: none")

    def _late(self, pair: Pair) -> Any:
        if isinstance(pair.node, MappingNode):
            example = "late: {counts: 1}"
            return self.reader.by_name(pair, example, lambda each: self.reader.number(each, example))
        return self.reader.number(pair, "late: 1")

    def _state(self, pair: Pair) -> Any:
        return self.reader.by_name(pair, "state: {counts: 4}", self._kept)

    def _kept(self, pair: Pair) -> Any:
        """The number of rows of state, the rows, or rows by operator, side of a join or state variable."""
        if isinstance(pair.node, MappingNode):
            return {each.key: self._kept_rows(each) for each in pair.node.pairs}
        return self._kept_rows(pair) if isinstance(pair.node, SequenceNode) else self._number_kept(pair)

    def _number_kept(self, pair: Pair) -> Any:
        return self.reader.number(
            pair, f"{pair.key}: 4` or `{pair.key}: [{{key: {{word: owl}}, value: {{count: 1}}}}]"
        )

    def _kept_rows(self, pair: Pair) -> list[Row]:
        if not isinstance(pair.node, SequenceNode):
            self.reader.wanted(pair, "a list of rows", f"{pair.key}: [{{key: {{…}}, value: {{…}}}}]")
            return []
        rows = [self.reader.row(node, f"`state` of `{pair.key}`") for node in pair.node.children]
        for row in rows:
            if row and not isinstance(row.values, Mapping):
                self.reader.wrong(pair, "a row of state has names", "Write `{key: {…}, value: {…}}` for it.")
        return [row for row in rows if isinstance(row, Row)]

    def _idle(self, pair: Pair) -> Any:
        names = pair.node.value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
        name = names if isinstance(names, str) else "clicks"
        self.reader.wanted(pair, "a list of sources", f"idle: [{name}]")
        return None

    def _fails(self, pair: Pair) -> Any:
        return self.reader.text(pair, "fails: words of the message")

    def _empty(self, node: Node) -> None:
        known = ", ".join((*ACTIONS, *CHECKS))
        self.reader.problems.append(TEST_STEP_EMPTY.at(node.position, known=known))

    def _no_word(self, node: Node) -> None:
        word = node.text if isinstance(node, ScalarNode) else node.kind
        self.reader.problems.append(TEST_STEP_WORD.at(node.position, word=word, hint=_word_hint(word)))


def _word_hint(word: str) -> str:
    """What to write in the place of a word that is no step."""
    if word in EXAMPLES:
        return f"It needs a value: write `- {EXAMPLES[word]}`."
    if word in CHECKS:
        return f"It needs a value: write `- {word}: …`."
    meant = nearest(word, (*ACTIONS, *CHECKS))
    if meant:
        return f"Did you mean `{meant}`?"
    return f"A step is one of the words {', '.join(WORDS)}, or keys with values: `{EXAMPLES['feed']}`."
