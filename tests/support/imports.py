"""Reads who imports whom from source text, and says which imports break a rule."""

import ast
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUR_NAME = "manyhands."
SQL = re.compile(
    r"\b(SELECT \S|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|ORDER BY|PRAGMA|json_each)|= \?"
)


@dataclass(frozen=True)
class Import:
    """One imported name, as far as it is a module that exists: `shared.jobs`, `time`. Packages of
    ours are named after their folders, without the `manyhands.` that they are imported with."""

    target: str
    line: int
    is_in_function: bool
    is_by_our_name: bool


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def says_pure(self) -> bool:
        """In the first paragraph of its docstring."""
        said = (ast.get_docstring(self.tree) or "").partition("\n\n")[0]
        return re.search(r"\b[Pp]ure\b", said) is not None

    def uses(self, foreign: str) -> set[str]:
        """The attributes that this module takes from another: `socket.gethostname`."""
        names = {
            f"{node.value.id}.{node.attr}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == foreign
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module == foreign:
                names |= {f"{foreign}.{alias.name}" for alias in node.names}
        return names


class ModuleTree:
    """All modules of a code base, by dotted name."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources` maps file paths, relative to the root, to their text."""
        trees = {_dotted(path): ast.parse(text, path) for path, text in sources.items()}
        self._packages = {_dotted(path) for path in sources if path.endswith("__init__.py")}
        self._names = set(trees)
        self.modules = {
            name: Module(name, tree, tuple(self._imports(name, tree)))
            for name, tree in trees.items()
        }

    @classmethod
    @cache
    def of_repository(cls) -> "ModuleTree":
        """Every Python file that is tracked or about to be, read once in a process; peers are other
        projects' code."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\0")
        paths = [path for path in listed if path and not path.startswith("loadtest/peers/")]
        return cls({path: (ROOT / path).read_text() for path in paths if (ROOT / path).exists()})

    def within(self, prefix: str) -> list[Module]:
        return [module for name, module in self.modules.items() if is_within(name, prefix)]

    def ours(self, module: Module) -> list[Import]:
        return [found for found in module.imports if found.target in self._names]

    def _imports(self, name: str, tree: ast.Module) -> Iterator[Import]:
        for node, is_in_function in _walk(tree, False):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    target = alias.name.removeprefix(OUR_NAME)
                    is_by_our_name = alias.name.startswith(OUR_NAME)
                    yield Import(target, node.lineno, is_in_function, is_by_our_name)
            elif isinstance(node, ast.ImportFrom):
                given = self._origin(name, node)
                origin = given.removeprefix(OUR_NAME)
                is_by_our_name = given.startswith(OUR_NAME)
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    target = inner if inner in self._names else origin
                    yield Import(target, node.lineno, is_in_function, is_by_our_name)

    def _origin(self, name: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = name.split(".")
        package = parts if name in self._packages else parts[:-1]
        kept = package[: len(package) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])


def _dotted(path: str) -> str:
    name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def _walk(node: ast.AST, is_in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, is_in_function
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, is_in_function or is_function)


def package_violations(
    tree: ModuleTree, allowed: Mapping[str, Collection[str]], exempt: Collection[tuple[str, str]]
) -> list[str]:
    """Imports from one package to another that the table does not allow."""
    found = []
    for module in tree.modules.values():
        if module.package not in allowed:
            found.append(f"{module.name}: no rule for the package {module.package}")
            continue
        for imported in tree.ours(module):
            package = imported.target.partition(".")[0]
            is_fine = package == module.package or package in allowed[module.package]
            if not is_fine and (module.name, package) not in exempt:
                found.append(f"{module.name}:{imported.line} imports {imported.target}")
    return found


def room_violations(tree: ModuleTree, prefix: str, levels: Sequence[Collection[str]]) -> list[str]:
    """Imports from one room of a package to another that is not below it.

    `levels` holds names without the prefix, lowest first; rooms of one level do not know each
    other. A module belongs to the innermost room that is named; those outside of all are not
    looked at.
    """
    level = {f"{prefix}.{name}": number for number, names in enumerate(levels) for name in names}

    def room_of(name: str) -> str:
        return max((room for room in level if is_within(name, room)), key=len, default="")

    found = []
    for module in tree.within(prefix):
        room = room_of(module.name)
        for imported in tree.ours(module):
            other = room_of(imported.target)
            if room and other and room != other and level[other] >= level[room]:
                found.append(f"{module.name}:{imported.line} imports {imported.target}")
    return found


def is_within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def cycles(tree: ModuleTree) -> list[list[str]]:
    """Every loop of imports that a depth-first walk meets."""
    edges = {
        name: sorted({found.target for found in tree.ours(module)} - {name})
        for name, module in tree.modules.items()
    }
    found: list[list[str]] = []
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in finished:
            for target in edges[name]:
                visit(target, [*path, name])
            finished.add(name)

    for name in edges:
        visit(name, [])
    return found


def imports_in_functions(tree: ModuleTree) -> list[str]:
    return [
        f"{module.name}:{imported.line} imports {imported.target} inside a function"
        for module in tree.modules.values()
        for imported in module.imports
        if imported.is_in_function
    ]


def environment_readers(tree: ModuleTree) -> set[str]:
    """Modules that read the process's environment."""
    readings = {"os.environ", "os.environb", "os.getenv", "os.getenvb"}
    return {name for name, module in tree.modules.items() if module.uses("os") & readings}


def sql_writers(tree: ModuleTree) -> set[str]:
    """Modules with SQL in a string that is no docstring."""
    return {module.name for module in tree.modules.values() if any(_sql_in(module.tree))}


def _sql_in(tree: ast.Module) -> Iterator[str]:
    explanations = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and node not in explanations
            and SQL.search(str(node.value))
        ):
            yield str(node.value)


def impure_uses(
    module: Module, forbidden: Collection[str], exempt: Collection[str] = ()
) -> list[str]:
    """What a pure module takes from modules with a clock or a network in them."""
    found = []
    for imported in module.imports:
        foreign = imported.target.partition(".")[0]
        if foreign not in forbidden:
            continue
        used = module.uses(foreign) or {imported.target}
        found += [f"{module.name} uses {name}" for name in sorted(used - set(exempt))]
    return found
