"""The tree itself: tests mirror modules, names are explained, nothing outgrows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sidecar" / "tokenweir"
TESTS = ROOT / "tests"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50

# Declarations only. A module leaves this list when it gets its first branch.
UNTESTED = {
    "core/cap.py",
    "core/codings/base.py",
    "core/commands.py",
    "core/counting.py",
    "core/errors.py",
    "core/events.py",
    "core/rejection.py",
    "core/step.py",
    "core/tokenize_server.py",
    "core/webhook.py",
    "driver/services.py",
    "explain/explanation.py",
    "export/sink.py",
    "extproc/messages.py",
    "inject/names.py",
    "inject/settings.py",
    "ledger/base.py",
    "ledger/store.py",
    "processor/settings.py",
    "stack/failure.py",
    "telemetry/hooks.py",
    "transport/base.py",
    "transport/http2/errors.py",
    "transport/http2/statuses.py",
    # These put together what is tested elsewhere: tests/e2e runs them.
    "__main__.py",
    "app.py",
    "cli/serve.py",
}
# Tests of the whole, and of what is beside the package.
OF_NO_PACKAGE = ("cases", "e2e", "deploy", "bench", "proto", "docs")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef

SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = [path for path in SOURCES if path.name != "__init__.py"]
TEST_FILES = sorted(TESTS.rglob("test_*.py"))
BENCHES = sorted((ROOT / "bench").rglob("*.py"))


def place(module: Path) -> str:
    """Return the path of *module* inside of the package."""
    return module.relative_to(PACKAGE).as_posix()


def own_test(module: Path) -> Path:
    """Return where the tests of *module* are."""
    path = module.relative_to(PACKAGE)
    return TESTS / path.with_name(f"test_{path.name}")


def is_public(node: Definition) -> bool:
    """Tell if *node* is for others to use. Dunder methods are explained by Python."""
    return not node.name.startswith("_")


def public_names(
    tree: ast.Module | ast.ClassDef, inside: str = ""
) -> Iterator[tuple[str, Definition]]:
    """Return the public functions and classes of *tree*, and their public methods."""
    for node in tree.body:
        if isinstance(node, Definition) and is_public(node):
            yield inside + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_names(node, f"{inside}{node.name}.")


def length(function: Function) -> int:
    """Return the lines of *function*, its docstring and decorators left out."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or 0) - docstring.lineno + 1)


def test_every_module_with_logic_has_its_own_test() -> None:
    """a/b.py is tested by tests/a/test_b.py, unless it only declares things."""
    missing = [
        module
        for path in MODULES
        if not own_test(path).exists() and (module := place(path)) not in UNTESTED
    ]

    assert missing == []


def test_the_exempt_have_no_logic_yet() -> None:
    """A module on the list of those without a test exists, and has none."""
    exempt = [PACKAGE / module for module in UNTESTED]

    assert [place(path) for path in exempt if not path.exists()] == []
    assert [place(path) for path in exempt if own_test(path).exists()] == []


def test_every_folder_of_tests_has_its_package() -> None:
    """tests/a is about tokenweir/a: a package that moves takes its tests along."""
    folders = {path.parent.relative_to(TESTS) for path in TEST_FILES}
    strays = [
        folder.as_posix()
        for folder in folders
        if not (PACKAGE / folder).is_dir() and folder.parts[0] not in OF_NO_PACKAGE
    ]

    assert strays == []


def test_files_fit_into_one_reading() -> None:
    """No file of the package is longer than its budget."""
    lines = {place(path): path.read_text().count("\n") for path in SOURCES}

    assert {file: n for file, n in lines.items() if n > MAX_FILE_LINES} == {}


def test_functions_fit_onto_one_screen() -> None:
    """No function is longer than its budget."""
    too_long = {
        f"{path.relative_to(ROOT)}: {node.name}": length(node)
        for path in [*SOURCES, *BENCHES]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, Function) and length(node) > MAX_FUNCTION_LINES
    }

    assert too_long == {}


def test_every_public_name_is_explained() -> None:
    """Modules, classes, functions and methods say what they are."""
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        silent += [
            f"{place(path)}: {full_name}"
            for full_name, node in [("module", tree), *public_names(tree)]
            if not ast.get_docstring(node)
        ]

    assert silent == []


def test_every_test_states_a_fact() -> None:
    """Tests have docstrings: what is true if they pass."""
    silent = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in TEST_FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, Function)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert silent == []
