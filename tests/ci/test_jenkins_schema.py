"""The JUnit documents against the schema that Jenkins' xUnit plugin publishes (-m network): pytest's own tests have it,
so that it is in the sources of pytest that the package index holds."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from xml.etree import ElementTree

import pytest
import xmlschema

from tests.budgets.formats.examples import EXAMPLES, HOSTILE, check, checked, hostile
from tfcalc.budgets.formats import written

SOURCES = "pytest==8.4.2"
SCHEMA = "pytest-8.4.2/testing/example_scripts/junit-10.xsd"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> xmlschema.XMLSchema:
    folder = tmp_path_factory.mktemp("sources")
    download = ["download", "-q", "--no-deps", "--no-binary", "pytest", "-d", str(folder), SOURCES]
    subprocess.run([sys.executable, "-m", "pip", *download], check=True, timeout=600)
    [archive] = folder.glob("pytest-*.tar.gz")
    with tarfile.open(archive) as sources:
        published = sources.extractfile(SCHEMA)
        assert published is not None
        return xmlschema.XMLSchema(published.read().decode())


def wrong(schema: xmlschema.XMLSchema, document: str) -> list[str]:
    return [str(error.reason) for error in schema.iter_errors(ElementTree.fromstring(document.encode()))]


@pytest.mark.network
def test_jenkins_reads_every_document(schema: xmlschema.XMLSchema) -> None:
    documents = [written(example, "junit") for example in (*EXAMPLES.values(), *map(hostile, HOSTILE))]
    assert {document: wrong(schema, document) for document in documents if wrong(schema, document)} == {}


@pytest.mark.network
@pytest.mark.parametrize(("good", "bad"), [('tests="1"', 'number="1"'), ("failure", "fault"), (" name=", " called=")])
def test_jenkins_would_refuse_a_fault(schema: xmlschema.XMLSchema, good: str, bad: str) -> None:
    document = written(checked(check()), "junit")
    assert good in document
    assert wrong(schema, document.replace(good, bad)) != []
