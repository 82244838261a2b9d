"""The committed messages are what the .proto files say."""

import importlib.metadata
import importlib.util
import pathlib

import pytest

TOOL = pathlib.Path(__file__).parents[1] / "tools" / "generate.py"


def test_the_generated_modules_are_up_to_date() -> None:
    if not TOOL.exists():
        pytest.skip("the generator and the .proto files are in the project's checkout only")
    spec = importlib.util.spec_from_file_location("generate", TOOL)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert importlib.metadata.version("grpcio-tools") == generate.COMPILER, "requirements-test.txt has the compiler"
    assert generate.stale(generate.compiled(), generate.present()) == [], "run python tools/generate.py"
