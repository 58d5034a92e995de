"""`ringfence.connectors.sdk`: documented, kept, and all that built-in connectors use of Ringfence besides the API."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SDK = ROOT / "connectors" / "sdk"
KEPT = Path(__file__).with_name("sdk_names.txt")
PUBLIC = {"api", "builtin", "converters", "sdk"}


def modules() -> set[str]:
    paths = (path.relative_to(SDK).with_suffix("") for path in SDK.rglob("*.py"))
    return {".".join(path.parts) for path in paths if path.name != "__init__"}


def public_names(module: str) -> set[str]:
    """What the module defines, without what it imports."""
    source = (SDK / module.replace(".", "/")).with_suffix(".py").read_text()
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return {f"{module}.{name}" for name in names if not name.startswith("_") and name != "log"}


def test_every_module_is_documented() -> None:
    text = (ROOT / "docs" / "writing-a-connector.md").read_text()
    section = text.partition("## Helpers\n")[2].partition("\n## ")[0]
    inner = {
        "own_listeners",
        "avro.bounds",
        "values.date_patterns",
        "values.exact",
        "values.literals",
    }  # of other modules
    missing = {
        each for each in modules() - inner if f"`{each}`" not in section and f"`{each.split('.')[0]}`" not in section
    }
    assert sorted(missing) == []


def test_public_names_stay() -> None:
    kept = set(KEPT.read_text().split())
    now = {name for module in modules() for name in public_names(module)}
    assert sorted(kept - now) == [], (
        "announce it in the CHANGELOG, keep it for a minor version, then take it off the list"
    )
    assert sorted(now - kept) == [], f"a new promise to authors: add it to {KEPT.name}, or give it a private name"


def test_the_import_contract_names_all_that_is_not_public() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("source_modules") == ["ringfence.connectors.builtin"])
    parts = (
        path for path in (ROOT / "connectors").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    )
    private = {f"ringfence.connectors.{path.stem}" for path in parts if path.stem != "__init__"}
    private -= {f"ringfence.connectors.{each}" for each in PUBLIC}
    assert sorted(contract["forbidden_modules"]) == sorted(private | {"ringfence.fencing"})
