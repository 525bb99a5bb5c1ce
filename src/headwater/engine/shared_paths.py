"""The local paths that a pipeline's executors use, and whether they share them with the driver.

On a cluster, executors that do not see the driver's disk write state and output to their own: every batch
succeeds, and the loss shows at the next restart. So each start asks them first.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from headwater.checkpoint import checkpoints_in
from headwater.checks import Finding, Severity
from headwater.connectors import sink_side, source_side
from headwater.engine import probe_task
from headwater.engine.executors import Executors, NoExecutors, NotAsked
from headwater.engine.jvm import is_local
from headwater.engine.path_probe import LocalPath, Probe
from headwater.engine.prepare import Prepared
from headwater.errors.catalogue.clusters import EXECUTORS_NOT_ASKED, NO_EXECUTORS
from headwater.plan import QueryFacts
from headwater.plan.quarantine import AGAIN, quarantine_folder
from headwater.spec import PipelineSpec, SinkOptions, SinkSpec, SourceSpec
from headwater.spec.globs import is_pattern, local_matches
from headwater.spec.paths import as_glob, fixed_folder, in_project, is_uri, plain_path

_MOST_DIRECTORIES = 50


def stream_paths(prepared: Prepared, spec: PipelineSpec, facts: Mapping[str, QueryFacts]) -> list[LocalPath]:
    """What the executors of a run use; only a query with state has them write into its checkpoint."""
    stateful = [sink for sink in spec.sinks if sink.name in facts and facts[sink.name].stateful]
    states = [
        LocalPath(
            str(checkpoints_in(spec.folder) / sink.name),
            f"The query `{sink.name}` stores its state in",
            "`folder`",
            spec.at("folder"),
            writes=True,
            created=True,
            sink=sink.name,
        )
        for sink in stateful
    ]
    read = [source for source in spec.sources if prepared.graph.readers(source.name)]
    copied = [source for source in read if _is_copied(source)]
    in_run_folder = {
        f"The source `{each.name}` keeps copies of its files in": spec.folder / "static" / each.name
        for each in copied
    } | {
        f"Replayed rows of `{name}` are read from": quarantine_folder(spec.folder, name) / AGAIN
        for name in prepared.builder.fed
    }
    kept = [
        LocalPath(str(path), use, "`folder`", spec.at("folder"), created=True)
        for use, path in in_run_folder.items()
    ]
    sources = [each for source in read if source not in copied for each in _source_paths(source, spec.root)]
    sinks = [each for sink in spec.sinks for each in _sink_paths(sink, sink.options)]
    return [*states, *sinks, *sources, *kept]


def batch_paths(
    prepared: Prepared, spec: PipelineSpec, options: Mapping[str, SinkOptions]
) -> list[LocalPath]:
    """What the executors of a batch run use; the sinks' options are those with `--into`."""
    keys = {name: "`--into`" for sink in spec.sinks if options[name := sink.name] != sink.options}
    written = (_sink_paths(sink, options[sink.name], keys.get(sink.name, "`path`")) for sink in spec.sinks)
    read = (_source_paths(each, spec.root) for each in spec.sources if prepared.graph.readers(each.name))
    return [each for paths in (*written, *read) for each in paths]


def unshared(
    prepared: Prepared,
    paths: Iterable[LocalPath],
    say: Callable[[str], None],
    go_on: Callable[[], None] = lambda: None,
    *,
    starts: bool = True,
) -> list[Finding]:
    """An error for each local path that some executor does not see, or can't write where it has to.

    On one machine there is nothing to ask. `go_on` is called while this waits for executors; it may raise.
    Unless a run `starts`, a cluster without a free executor is worth a warning and no long wait.
    """
    context = prepared.session.jvm.context
    if is_local(str(context.master)):
        return []
    by_default = str(context._jsc.hadoopConfiguration().get("fs.defaultFS"))
    used = [each for each in paths if each.is_on_disk(by_default)]
    if not used:
        return []
    executors = Executors(context, say, go_on, waits_long=starts)
    asked = {"master": str(context.master), "path": used[0].path}
    try:
        with Probe.placed(used) as probe:
            findings = list(_answered(executors, probe, asked))
        if probe.left:
            with suppress(NoExecutors, NotAsked):
                executors.ask(partial(probe_task.remove, probe.left))
        return findings
    except NoExecutors:
        none = NO_EXECUTORS.at(None, **asked, seconds=f"{executors.patience:g}")
        return [Finding(none, Severity.ERROR if starts else Severity.WARNING)]


def _answered(executors: Executors, probe: Probe, asked: Mapping[str, str]) -> Iterator[Finding]:
    """What the executors answer; an error if some do not, since any of them may lack a path."""
    try:
        answers = executors.ask(partial(probe_task.answer, probe.questions))
    except NotAsked as error:
        answers, python = error.answers, ".".join(platform.python_version_tuple()[:2])
        yield Finding(EXECUTORS_NOT_ASKED.at(None, **asked, reason=str(error), python=python))
    yield from probe.findings(answers)


def _is_copied(source: SourceSpec) -> bool:
    """Whether executors read copies of a static source's files, which the driver puts into the run folder."""
    side = source_side(source.connector)
    remote = any(is_uri(plain_path(place)) for place in side.places(source.options))
    return source.static and side.static_copies and not remote


def _sink_paths(sink: SinkSpec, options: SinkOptions, key: str = "`path`") -> Iterator[LocalPath]:
    side = sink_side(sink.connector)
    if side.on_driver:
        return
    use, place = f"The sink `{sink.name}` writes to", sink.at("path")
    if sink.sets_aside:
        use, key = f"The quarantine of `{sink.reads}` is in", "`folder`"
    for written in side.places(options):
        if os.path.isabs(plain_path(written)):
            yield LocalPath(written, use, key, place, writes=True, created=True, sink=sink.name)


def _source_paths(source: SourceSpec, root: Path) -> Iterator[LocalPath]:
    """The directories of a source, and files that it names one by one."""
    for number, written in enumerate(source_side(source.connector).places(source.options)):
        path = plain_path(written)
        if os.path.isabs(path):
            place = source.places.get(("path", number), source.at("path"))
            for found in _found(path, root):
                shown = f"file:{found}" if path != written else found
                yield LocalPath(shown, f"The source `{source.name}` reads", "`path`", place)


def _found(path: str, root: Path) -> list[str]:
    """What a path or a glob stands for now: of files that match, the directories that they are in."""
    found = [path]
    if is_pattern(in_project(path, root)):
        matches = local_matches(as_glob(path, root))
        inside = dict.fromkeys(each if os.path.isdir(each) else os.path.dirname(each) for each in matches)
        found = list(inside)[:_MOST_DIRECTORIES] or [fixed_folder(path, root)]
    # Of what is missing on the driver, too, the check says more.
    return [each for each in found if os.path.exists(each)]
