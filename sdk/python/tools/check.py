"""Every check of the package, the same as in CI: format, lint, types, generated modules, tests.

Further arguments go to pytest. INSPAN_BIN, when set, names the host that the tests of test_host.py use.
"""

import os
import pathlib
import subprocess
import sys

SDK = pathlib.Path(__file__).resolve().parents[1]

CHECKS = (
    ("ruff", "format", "--check", "--quiet"),
    ("ruff", "check", "--quiet"),
    ("mypy", "--no-error-summary"),
    ("pytest", "--quiet", *sys.argv[1:]),
)


def main() -> None:
    """Runs them all, also after one failed, and says which did."""
    if binary := os.environ.get("INSPAN_BIN"):
        os.environ["INSPAN_BIN"] = os.path.abspath(binary)
    failed = []
    for check in CHECKS:
        print(f"{' '.join(check)}", flush=True)
        if subprocess.run([sys.executable, "-m", *check], cwd=SDK, check=False).returncode:
            failed.append(check[0])
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
