"""Secrets: known by name, revealed at the moment of use, never printed."""

import copy
import json
import pickle
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from headwater.errors import PipelineError
from headwater.values import Secret, scrub, secret
from headwater.values.secrets import Revealed, SecretName, looks_secret, masked, secrets_in

URL = "postgres://${secret:DB_USER}:${secret:DB_PASSWORD}@db/${secret:DB_USER}"


@pytest.mark.parametrize("text", ["${secret:DB_PASSWORD}", URL])
def test_never_prints(text: str) -> None:
    value = Secret(text)
    printed = [str(value), repr(value), f"{value}", f"{value:>20}", f"{value!r}", "%s" % value]  # noqa: UP031
    assert printed == ["***"] * 6
    assert repr([value]) == "[***]"


def test_knows_its_names_and_its_template() -> None:
    assert Secret(URL).names == ("DB_USER", "DB_PASSWORD")
    assert Secret(URL).template == URL
    assert Secret("$${x} ${secret:A}").template == "$${x} ${secret:A}"


def test_is_equal_by_template() -> None:
    assert Secret(URL) == Secret(URL)
    assert hash(Secret(URL)) == hash(Secret(URL))
    assert Secret(URL) != secret("DB_USER")
    assert Secret("a${secret:A}") == Secret.of(["", "a", SecretName("A"), ""])
    assert secret("A") == Secret("${secret:A}")


@pytest.mark.parametrize("text", ["", "plain", "${NAME}", "${secret:}", "${secret:a b}", "$${secret:A}"])
def test_refuses_a_text_that_names_no_secret(text: str) -> None:
    with pytest.raises(ValueError):
        Secret(text)


def test_is_copied_as_itself_and_never_pickled() -> None:
    value = secret("A")
    assert copy.copy(value) is value
    assert copy.deepcopy({"url": value})["url"] is value
    with pytest.raises(TypeError):
        pickle.dumps(value)


def test_reveals_from_the_environment() -> None:
    environ = {"DB_USER": "anna", "DB_PASSWORD": "environment-pw"}
    assert Secret(URL).missing(environ) == ()
    assert Secret(URL).reveal(environ) == "postgres://anna:environment-pw@db/anna"


@pytest.mark.parametrize(
    ("content", "value"), [("file-pw\n", "file-pw"), ("file-pw\r\n", "file-pw"), ("two\n\n", "two\n")]
)
def test_reveals_from_a_file(tmp_path: Path, content: str, value: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    environ = {"DB_PASSWORD_FILE": str(file)}
    assert secret("DB_PASSWORD").missing(environ) == ()
    assert secret("DB_PASSWORD").reveal(environ) == value


def test_the_environment_wins_over_the_file() -> None:
    environ = {"DB_PASSWORD": "wins-pw", "DB_PASSWORD_FILE": "/nowhere"}
    assert secret("DB_PASSWORD").reveal(environ) == "wins-pw"


def test_says_what_is_missing(tmp_path: Path) -> None:
    environ = {"DB_USER": "anna"}
    assert Secret(URL).missing(environ) == ("DB_PASSWORD",)
    with pytest.raises(PipelineError) as refused:
        Secret(URL).reveal(environ)
    assert [(p.code, p.params) for p in refused.value.problems] == [
        ("HW-SECRET-MISSING", {"name": "DB_PASSWORD"})
    ]


def test_says_which_file_can_not_be_read(tmp_path: Path) -> None:
    environ = {"DB_PASSWORD_FILE": str(tmp_path / "absent")}
    assert secret("DB_PASSWORD").missing(environ) == ("DB_PASSWORD",)
    with pytest.raises(PipelineError) as refused:
        secret("DB_PASSWORD").reveal(environ)
    problem = refused.value.problems[0]
    assert problem.code == "HW-SECRET-FILE-UNREADABLE"
    assert problem.params["file"] == str(tmp_path / "absent")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(PipelineError) as refused:
        secret("KEY").reveal({"KEY_FILE": str(file)})
    assert refused.value.problems[0].code == "HW-SECRET-FILE-UNREADABLE"


def test_what_was_revealed_is_scrubbed() -> None:
    Secret("jdbc:${secret:SCRUBBED}/db").reveal({"SCRUBBED": 'p/"w w-7541'})
    texts = ['p/"w w-7541', 'jdbc:p/"w w-7541/db', quote('p/"w w-7541', safe=""), json.dumps('p/"w w-7541')]
    assert [scrub(f"<{text}>") for text in texts] == ["<***>", "<***>", "<***>", '<"***">']
    assert scrub("nothing to hide") == "nothing to hide"


def test_overlapping_values_are_masked_together() -> None:
    revealed = Revealed()
    revealed.add("abc", "bcd", "abcdef", "")
    assert revealed.scrub("xabcdx abcdefg bc") == "x***x ***g bc"


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_scrub_never_leaves_a_secret(values: list[str], around: list[str]) -> None:
    # The mask itself is stars, so a value with one can't be told from it.
    assume(not any("*" in value for value in values))
    revealed = Revealed()
    revealed.add(*values)
    pieces = [piece for pair in zip(around, values, strict=False) for piece in pair]
    quoted = "".join(quote(piece, safe="") for piece in pieces)
    scrubbed = revealed.scrub("".join(pieces) + json.dumps(pieces) + quoted)
    assert [value for value in values if value and value in scrubbed] == []


class Model(BaseModel):
    url: str | Secret


def test_a_model_takes_a_secret_and_writes_stars() -> None:
    model = Model(url=Secret(URL))
    assert model.url == Secret(URL)
    assert repr(model) == "Model(url=***)"
    assert model.model_dump_json() == '{"url":"***"}'
    assert Model.model_json_schema()["properties"]["url"]["anyOf"][1]["type"] == "string"


def test_a_model_for_secrets_takes_no_text() -> None:
    class OnlySecret(BaseModel):
        url: Secret

    with pytest.raises(ValidationError):
        OnlySecret.model_validate({"url": "${secret:A}"})


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";'


@pytest.mark.parametrize(
    "name",
    ["password", "dbPassword", "kafka.sasl.jaas.config", "kafka.ssl.key.password", "apiKey", "api_token",
     "fs.s3a.secret.key", "fs.azure.account.key.x", "clientSecret", "oauth.token", "basic.auth.user.info",
     "fs.azure.account.oauth2.client.secret.x", "apikey", "AWS_SECRET_ACCESS_KEY", "http.auth.pass",
     "header.Authorization", "kafka.ssl.keystore.key", "spark.authenticate.secret"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name, "value")
    assert masked(name, "value") == "***"


@pytest.mark.parametrize(
    "name",
    ["path", "subscribe", "kafka.bootstrap.servers", "maxFilesPerTrigger", "kafka.sasl.mechanism",
     "kafka.ssl.truststore.location", "tokenizer", "header", "author", "maxTokens", "max_tokens", "compass",
     "spark.authenticate", "oauth.enabled", "password.file", "primary_key", "kafka.sasl.login.class",
     "fs.azure.account.oauth.provider.type", "credentials.provider", "token.endpoint.url"],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not looks_secret(name, "value")
    assert masked(name, "value") == "value"


def test_a_secret_inside_a_value() -> None:
    assert masked("url", "jdbc:postgresql://u:geheim@db/shop") == "jdbc:postgresql://***@db/shop"
    assert (
        masked("url", "jdbc:x://db?user=u&password=geheim&ssl=true")
        == "jdbc:x://db?user=u&password=***&ssl=true"
    )

    assert masked("url", "redis://:geheim@cache/0") == "redis://***@cache/0"
    assert masked("url", "x://u:ge@heim@db/a@b") == "x://***@db/a@b"
    assert masked("c", "Endpoint=sb://x/;SharedAccessKey=geheim") == "Endpoint=sb://x/;SharedAccessKey=***"


@pytest.mark.parametrize("value", ["true", "False", " none ", "null", ""])
def test_what_says_nothing_is_no_secret(value: str) -> None:
    assert masked("password", value) == value
    assert masked("url", f"jdbc:x://db?token={value}") == f"jdbc:x://db?token={value}"
    assert secrets_in("password", value) == ()


@pytest.mark.parametrize("value", ["123456", "-1", "0.5", "abc"])
def test_numbers_and_a_few_letters_are_masked_in_their_place_alone(value: str) -> None:
    assert masked("password", value) == "***"
    assert secrets_in("password", value) == ()
    assert secrets_in("url", f"jdbc:x://db?password={value}") == ()


def test_what_must_not_be_shown() -> None:
    assert secrets_in("spark.authenticate", "false") == ()
    assert secrets_in("kafka.sasl.jaas.config", JAAS) == tuple(sorted((JAAS, "geheim")))
    assert secrets_in("url", "amqp://u:geheim@host") == ("u:geheim",)
    assert secrets_in("path", "/data/in") == ()
