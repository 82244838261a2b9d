"""Tests are coroutines; each runs in a loop of its own."""

import asyncio
import inspect
import pathlib

import pytest

SECONDS_MAX = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, so that no plugin is needed for it."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    # The names that pytest gives to the test function are those of its signature.
    names = inspect.signature(pyfuncitem.function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.function(**arguments), SECONDS_MAX))
    return True


@pytest.fixture(params=["tcp", "unix"])
def address(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """An address of each kind for a server to listen on."""
    return "127.0.0.1:0" if request.param == "tcp" else f"unix://{tmp_path}/h.sock"


@pytest.fixture
def loopback() -> str:
    """An address for tests that are not about addresses."""
    return "127.0.0.1:0"
