"""Writes src/inspan/_gen from the .proto files, so that the package needs no compiler where it is installed.

With --check it writes nothing, and fails when what is there is not what it would write.
"""

import argparse
import importlib.metadata
import importlib.resources
import pathlib
import re
import subprocess
import sys
import tempfile

SDK = pathlib.Path(__file__).resolve().parents[1]
PROTOS = SDK.parents[1] / "crates" / "wire" / "proto"
TARGET = SDK / "src" / "inspan" / "_gen"

# The compiler that made the committed modules. They run on its own and on newer runtimes, so an old one is a kind one.
COMPILER = "1.76.0"

# What the compiler puts into a method that nobody has overridden: a status, and then an exception that the
# server would turn into another one. Ending the call with that status says the same once.
UNSERVED = re.compile(
    r"context\.set_code\((?P<code>[\w.]+)\)\n\s+context\.set_details\((?P<details>'[^']*')\)\n"
    r"\s+raise \w+\('[^']*'\)"
)

# The compiler imports modules from the root of its output; ours live inside a package.
IMPORT = re.compile(r"^from (agentsessions|inspan)\.", re.MULTILINE)


def compiled() -> dict[str, str]:
    """Every generated module by its path below TARGET."""
    names = sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto"))
    if not names:
        raise SystemExit(f"there is no .proto file below {PROTOS}: this tool runs in a checkout only")
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"-I{well_known}", *flags, *names]
        subprocess.run(command, check=True)
        root = pathlib.Path(folder)
        modules = {path.relative_to(root).as_posix(): moved(path) for path in sorted(root.rglob("*.py*"))}
    packages = {package for module in modules for package in pathlib.PurePosixPath(module).parents}
    return modules | {(package / "__init__.py").as_posix(): "" for package in packages}


def moved(module: pathlib.Path) -> str:
    """The text of a generated module, its imports inside our package, its methods ending a call they do not serve."""
    text = IMPORT.sub(r"from inspan._gen.\1.", module.read_text())
    return UNSERVED.sub(r"context.abort(\g<code>, \g<details>)", text)


def present() -> dict[str, str]:
    """Every module that is there now by its path below TARGET."""
    return {
        path.relative_to(TARGET).as_posix(): path.read_text()
        for path in sorted(TARGET.rglob("*.py*"))
        if "__pycache__" not in path.parts
    }


def stale(wanted: dict[str, str], have: dict[str, str]) -> list[str]:
    """The modules that differ, lack or are too many."""
    return sorted(name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name))


def write(modules: dict[str, str]) -> None:
    """Leaves exactly these modules below TARGET."""
    for name in present().keys() - modules.keys():
        (TARGET / name).unlink()
    for name, text in modules.items():
        path = TARGET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Writes src/inspan/_gen from the .proto files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    check = parser.parse_args().check
    version = importlib.metadata.version("grpcio-tools")
    if version != COMPILER:
        raise SystemExit(f"grpcio-tools {version} would write other modules than {COMPILER}: install that version")
    modules = compiled()
    if not check:
        write(modules)
    elif differing := stale(modules, present()):
        raise SystemExit(f"not up to date: {', '.join(differing)}; run python tools/generate.py")


if __name__ == "__main__":
    main()
