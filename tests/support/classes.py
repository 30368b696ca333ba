"""Reads from source text what classes have and what they ask for."""

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tests.support.imports import Module

# What makes a class a record of plain data, however many fields it has.
DATA_BASES = {"NamedTuple", "TypedDict", "Enum", "StrEnum", "IntEnum", "BaseModel", "Settings"}


@dataclass(frozen=True)
class Class:
    name: str
    node: ast.ClassDef

    @property
    def methods(self) -> list[str]:
        return [
            part.name
            for part in self.node.body
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    @property
    def is_data(self) -> bool:
        """A record that never changes, or one of the kinds that only hold values."""
        return bool({_last(base) for base in self.node.bases} & DATA_BASES) or any(
            isinstance(decorator, ast.Call)
            and _last(decorator.func) == "dataclass"
            and any(
                word.arg == "frozen"
                and isinstance(word.value, ast.Constant)
                and word.value.value is True
                for word in decorator.keywords
            )
            for decorator in self.node.decorator_list
        )

    def required(self) -> Iterator[tuple[str, ast.expr | None]]:
        """The parameters of its constructor that have no default."""
        for part in self.node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                yield from _required_parameters(part.args)
                return
        if any("dataclass" in ast.unparse(mark) for mark in self.node.decorator_list):
            for part in self.node.body:
                if isinstance(part, ast.AnnAssign) and part.value is None:
                    yield ast.unparse(part.target), part.annotation


def classes(modules: Iterable[Module]) -> list[Class]:
    return [
        Class(f"{module.name}.{node.name}", node)
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]


def services(modules: Iterable[Module]) -> set[str]:
    """Names of types that do something: our classes but for plain data, and callables."""
    some = list(modules)
    aliases = {
        ast.unparse(node.targets[0])
        for module in some
        for node in module.tree.body
        if isinstance(node, ast.Assign) and _names(node.value) & {"Callable"}
    }
    return {"Callable", *aliases, *(cls.node.name for cls in classes(some) if not cls.is_data)}


def services_asked_for(cls: Class, known: Collection[str]) -> list[str]:
    """The required parameters of a constructor that are services or callables of ours: no plain
    data, nothing of the standard library."""
    return [
        name
        for name, annotation in cls.required()
        if annotation is not None and _names(annotation) & set(known)
    ]


def _required_parameters(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    plain = [*arguments.posonlyargs, *arguments.args]
    for argument in plain[1 : len(plain) - len(arguments.defaults)]:
        yield argument.arg, argument.annotation
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            yield argument.arg, argument.annotation


def _names(annotation: ast.expr) -> set[str]:
    """The last part of each name in it, quoted or not."""
    found = set()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name | ast.Attribute):
            found.add(_last(node))
        elif isinstance(node, ast.Constant) and str(node.value).isidentifier():
            found.add(str(node.value))
    return found


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
