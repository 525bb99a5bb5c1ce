"""One real broker for all tests of a process, with ways in for each kind of security, and one Spark JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin as kafka_admin
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.dev import Broker, Listener
from headwater.engine.launch import artifacts_of, jar_store
from tests.jvm import shared_context
from tests.messages import fresh_topic

USER = "alice"
PASSWORD = "canary-7f3a"
_MODULES = "org.apache.kafka.common.security"
SASL_PLAIN = Listener(
    "SASLPLAIN",
    "SASL_PLAINTEXT",
    {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    },
)
SASL_SCRAM = Listener(
    "SASLSCRAM",
    "SASL_PLAINTEXT",
    {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    },
)
CERTIFICATES = Path(__file__).parent / "certificates"
_KEYS = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(CERTIFICATES / "broker.pem")}
TLS = Listener("TLS", "SSL", _KEYS)
TLS_BOTH_WAYS = Listener(
    "MTLS",
    "SSL",
    {
        **_KEYS,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTIFICATES / "ca.pem"),
        "ssl.client.auth": "required",
    },
)
SASL_TLS = Listener("SASLTLS", "SASL_SSL", {**_KEYS, **SASL_PLAIN.settings})
LISTENERS = (SASL_PLAIN, SASL_SCRAM, TLS, TLS_BOTH_WAYS, SASL_TLS)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of the process; a test that kills it starts it again."""
    running = Broker(
        tmp_path_factory.mktemp("broker"),
        listeners=LISTENERS,
        properties={"auto.create.topics.enable": "false"},
    )
    with running:
        _add_scram_users(running.servers)
        yield running


@pytest.fixture
def mortal(broker: Broker) -> Iterator[Broker]:
    """The broker of all tests, which runs again when the test is over."""
    try:
        yield broker
    finally:
        broker.start()


@pytest.fixture
def topic(broker: Broker) -> str:
    """An empty topic of one partition for one test."""
    return fresh_topic(broker.servers)


@pytest.fixture
def make_topic(broker: Broker) -> Callable[..., str]:
    """Makes empty topics: `make_topic(3, prefix="clicks", retention_ms="1000")`."""
    return lambda count=1, **settings: fresh_topic(broker.servers, count, **settings)


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    # A continuous query needs them from the start, as a run of the command has them.
    store = jar_store()
    jars = [str(store.take(artifact).path) for artifact in artifacts_of("kafka")]
    with shared_context(tmp_path_factory.mktemp("jvm"), lambda line: None, jars) as context:
        yield context


@pytest.fixture
def spark(context: SparkContext) -> SparkSession:
    """A session of its own for one test."""
    return SparkSession(context).newSession()


def _add_scram_users(servers: str) -> None:
    kafka: Any = kafka_admin
    client = kafka.AdminClient({"bootstrap.servers": servers})
    for mechanism in (kafka.ScramMechanism.SCRAM_SHA_256, kafka.ScramMechanism.SCRAM_SHA_512):
        credential = kafka.ScramCredentialInfo(mechanism, 4096)
        user = kafka.UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        for answer in client.alter_user_scram_credentials([user]).values():
            answer.result(timeout=30)
