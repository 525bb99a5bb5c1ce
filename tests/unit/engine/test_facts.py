"""What facts keep of a declared source."""

from __future__ import annotations

from headwater.engine.facts import source_facts
from headwater.plan.reading import Steps
from headwater.values import Unpaced
from tests.unit.specs import spec_of


def test_no_secret_of_a_source_is_kept_however_it_is_written() -> None:
    spec = spec_of(
        """
        name: p
        sources:
          rows:
            connector: files
            path: s3a://me:open-sesame@bucket/in
            format: json
            schema: {id: int}
            options:
              api_token: open-sesame
              password: ${secret:WORD}
              url: postgresql://me:open-sesame@db/shop?ssl=true
              authenticate: "false"
              maxTokens: "100"
        sinks: {out: {reads: rows, connector: noop}}
        """
    )
    facts = source_facts(spec.sources[0], Steps((), (), (), ("rows",)), Unpaced(), 0)
    shown = ("api_token", "password", "url", "authenticate", "maxTokens", "path")
    assert {key: facts.options[key] for key in shown} == {
        "api_token": "***",
        "password": "***",
        "url": "postgresql://***@db/shop?ssl=true",
        "authenticate": "false",
        "maxTokens": "100",
        "path": "s3a://***@bucket/in",
    }
    assert facts.places == ("s3a://***@bucket/in",)
    assert "sesame" not in str(facts)
