"""Finds code that stands twice: runs of lines that are the same to the letter, or the same in shape
(alike but for names, strings and numbers)."""

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

LEAST_LINES = 6
# Layout, not code.
PASSED_OVER = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENDMARKER,
}
VALUES = {tokenize.STRING, tokenize.NUMBER}
# What any two functions share: parameters, arguments, what a constructor keeps of them, the values
# that its state begins with, and a record filled from the fields of another.
DECLARATIONS = frozenset(
    {
        *("n : n ,", "n ,", "n , n ,", "v ,", "v", "v : v ,"),
        *("n = n ,", "n = n . n ,"),
        *("self . n = n", "self . n = v", "self . n = False", "self . n = True", "self . n = None"),
    }
)
# Before each line of a Protocol's methods: an implementation has to repeat them, so that only
# another Protocol can have the same lines.
OF_PROTOCOL = "Protocol "


@dataclass(frozen=True)
class Line:
    number: int
    letters: str
    # Empty where it does not count: outside of functions, where constants and fields are listed,
    # and for declarations within them.
    shape: str


@dataclass(frozen=True)
class Repeat:
    """Two places, named after the functions or classes in which their runs begin."""

    places: tuple[str, str]
    lines: int
    at: tuple[int, int]

    def __str__(self) -> str:
        (one, other), (first, second) = self.places, self.at
        return f"{one} (line {first}) ~ {other} (line {second}): {self.lines} lines"


@dataclass(frozen=True)
class _File:
    path: str
    lines: list[Line]
    scopes: list[tuple[int, int, str]]

    def place(self, number: int) -> str:
        inside = [scope for scope in self.scopes if scope[0] <= number <= scope[1]]
        return f"{self.path}:{max(inside, default=(0, 0, ''))[2]}".rstrip(":")


def repeats(sources: Mapping[str, str], least: int = LEAST_LINES) -> list[Repeat]:
    """Every pair of places that share `least` lines or more, each named once.

    By shape, lines that only declare something do not count: any two records look alike.
    """
    files = [_File(path, *_read(text)) for path, text in sorted(sources.items())]
    letters = _runs(files, [[line.letters for line in file.lines] for file in files], least)
    shapes = [[line.shape for line in file.lines] for file in files]
    found: dict[tuple[str, str], Repeat] = {}
    for one, first, other, second, length in [*letters, *_runs(files, shapes, least)]:
        at = (files[one].lines[first].number, files[other].lines[second].number)
        places = (files[one].place(at[0]), files[other].place(at[1]))
        longest = found.get(places)
        if longest is None or length > longest.lines:
            found[places] = Repeat(places, length, at)
    return sorted(found.values(), key=lambda repeat: repeat.places)


def _runs(
    files: Sequence[_File], texts: Sequence[Sequence[str]], least: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """The longest common runs: file and line of the one, file and line of the other, length."""
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for file, lines in enumerate(texts):
        for start in range(len(lines) - least + 1):
            window = tuple(lines[start : start + least])
            if all(window):
                windows[window].append((file, start))
    for places in windows.values():
        for (one, first), (other, second) in combinations(places, 2):
            is_begun_before = (
                first > 0 and second > 0 and texts[one][first - 1] == texts[other][second - 1] != ""
            )
            if is_begun_before or (one == other and second - first < least):
                continue
            length = least
            while (
                first + length < len(texts[one])
                and second + length < len(texts[other])
                and texts[one][first + length] == texts[other][second + length] != ""
            ):
                length += 1
            yield one, first, other, second, length


def _read(text: str) -> tuple[list[Line], list[tuple[int, int, str]]]:
    tree = ast.parse(text)
    left_out = _imports_and_docstrings(tree)
    in_functions = _within_functions(tree)
    in_protocols = _within_protocols(tree)
    tokens: dict[int, list[tokenize.TokenInfo]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in PASSED_OVER and token.start[0] not in left_out:
            tokens[token.start[0]].append(token)
    lines = []
    for number, some in sorted(tokens.items()):
        if all(token.type == tokenize.OP for token in some):
            continue
        letters = " ".join(token.string for token in some)
        shape = " ".join(_shape(token) for token in some) if number in in_functions else ""
        if shape in DECLARATIONS:
            shape = ""
        if number in in_protocols:
            letters, shape = OF_PROTOCOL + letters, shape and OF_PROTOCOL + shape
        lines.append(Line(number, letters, shape))
    return lines, list(_scopes(tree, ""))


def _shape(token: tokenize.TokenInfo) -> str:
    if token.type in VALUES:
        return "v"
    is_word = keyword.iskeyword(token.string) or token.string == "self"
    return "n" if token.type == tokenize.NAME and not is_word else token.string


def _imports_and_docstrings(tree: ast.Module) -> set[int]:
    numbers: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.stmt)
            numbers.update(_numbers(node))
    return numbers


def _within_functions(tree: ast.Module) -> set[int]:
    return {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for number in _numbers(node)
    }


def _within_protocols(tree: ast.Module) -> set[int]:
    return {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(_is_protocol(base) for base in node.bases)
        for number in _numbers(node)
    }


def _is_protocol(base: ast.expr) -> bool:
    """`Protocol`, or `Protocol[T]`."""
    name = base.value if isinstance(base, ast.Subscript) else base
    return isinstance(name, ast.Name) and name.id == "Protocol"


def _numbers(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _scopes(node: ast.AST, outer: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{outer}.{child.name}".lstrip(".")
            yield child.lineno, child.end_lineno or child.lineno, name
            yield from _scopes(child, name)
        else:
            yield from _scopes(child, outer)
