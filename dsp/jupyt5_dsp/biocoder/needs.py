"""What a function needs of its project: found transitively, over files, without running anything.

Imports of other packages stay import statements. What comes from the project's own modules is
followed to its definition. Of the function's own class, and of classes it inherits from, only the
fields, the constructor and the members that are used come along; of other classes a skeleton with
the headers of all members.
"""

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jupyt5_dsp.biocoder.records import unparse
from jupyt5_dsp.biocoder.source import (
    Definition,
    FunctionNode,
    Import,
    Module,
    describe_function,
    iter_imports,
)

__all__ = ["Needs", "Project", "Target", "find_needs", "list_surroundings", "render_skeleton"]

_ORDER = ("import", "global", "function", "class")


@dataclass(frozen=True, slots=True)
class Project:
    """Modules by dotted name."""

    modules: Mapping[str, Module] = field(repr=False)

    def resolve(self, origin: Module, name: str) -> str:
        """Return the absolute name of a module as ``origin`` imports it."""
        level = len(name) - len(name.lstrip("."))
        if not level:
            return name
        parts = origin.name.split(".") if origin.name else []
        parts = parts if origin.is_package else parts[:-1]
        kept = parts[: len(parts) - (level - 1)] if level > 1 else parts
        rest = name[level:]
        return ".".join([*kept, rest] if rest else kept)


@dataclass(frozen=True, slots=True)
class Target:
    """The function in question.

    Attributes:
        module: Its file.
        function: Its name.
        class_name: Its class; "" outside of classes.
        hidden: What else the reference solution defines beside it, in the same class or file:
            part of the answer, so never shown.
    """

    module: Module
    function: str
    class_name: str = ""
    hidden: frozenset[str] = frozenset()

    @property
    def answer(self) -> frozenset[str]:
        """All names that the reference solution defines."""
        return self.hidden | {self.function}

    @property
    def owner(self) -> Definition | None:
        """Its class."""
        return self.module.definitions.get(self.class_name) if self.class_name else None

    @property
    def is_there(self) -> bool:
        """Whether the module has such a function."""
        owner = self.owner
        return self.function in (owner.members if owner else self.module.definitions)

    @property
    def definition(self) -> Definition:
        """The function itself.

        Raises:
            KeyError: If the module has no such function.
        """
        owner = self.owner
        found = owner.members if owner else self.module.definitions
        return found[self.function]


@dataclass(frozen=True, slots=True)
class Needs:
    """Parts of a project as code; in each, the order of the files and of what asks for them."""

    imports: tuple[str, ...]
    global_variables: tuple[str, ...]
    functions: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """All of them in the order of a prompt."""
        imports = ("\n".join(self.imports),) if self.imports else ()
        return (*imports, *self.global_variables, *self.functions, *self.classes)


def find_needs(project: Project, target: Target) -> Needs:
    """Return all that a function needs besides itself.

    Args:
        project: Where names are looked up.
        target: The function.

    Raises:
        KeyError: If the module has no such function.
    """
    finder = _Finder(project)
    finder.mark(target.module, target.function if not target.class_name else target.class_name)
    if not target.owner:
        finder.use_hidden(target)
    finder.use(target.module, target.definition)
    if target.owner:
        finder.add_own_class(target)
    return finder.collect()


def list_surroundings(module: Module, target: Target) -> Needs:
    """Return the whole context of a function: its file, long functions described only."""
    functions: list[str] = []
    classes: list[str] = []
    variables: dict[str, None] = {}
    answer = target.answer
    for one in module.definitions.values():
        if not target.class_name and one.name in answer:
            continue
        if one.kind == "global":
            variables[one.text] = None
        elif one.kind == "class":
            own = one.name == target.class_name
            classes.append(render_skeleton(one, without=answer if own else frozenset()))
        else:
            functions.append(describe_function(one))
    imports = tuple(dict.fromkeys(one.text for one in module.imports))
    return Needs(imports, tuple(variables), tuple(functions), tuple(classes))


def render_skeleton(
    definition: Definition,
    *,
    only: frozenset[str] | None = None,
    without: frozenset[str] = frozenset(),
) -> str:
    """Return a class with its fields and the headers of its members.

    Args:
        definition: The class.
        only: Names of members whose whole text is given, all other functions being left out; None
            gives the headers of all.
        without: Members to leave out.
    """
    node = definition.node
    assert isinstance(node, ast.ClassDef)
    arguments = [unparse(one) for one in node.bases]
    arguments += [f"{one.arg}={unparse(one.value)}" for one in node.keywords]
    head = f"class {node.name}({', '.join(arguments)}):" if arguments else f"class {node.name}:"
    lines = [*(f"@{unparse(one)}" for one in node.decorator_list), head]
    shown = [one for one in definition.members.values() if one.name not in without]
    body = list(dict.fromkeys(one.text for one in shown if one.kind == "global"))
    for member in shown:
        if member.kind == "global":
            continue
        if member.kind == "class":
            body.append(render_skeleton(member))
        elif only is None:
            body.append(describe_function(member, always=True))
        elif member.name in only:
            body.append(describe_function(member))
    text = "\n".join(body) or "..."
    return "\n".join([*lines, *(f"    {line}" if line else line for line in text.split("\n"))])


class _Finder:
    """Follows names from one definition to the next."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen: set[tuple[str, str]] = set()
        # Modules may import from each other in circles.
        self._followed: set[tuple[str, str, str, frozenset[str]]] = set()
        self._waiting: deque[tuple[Module, Definition]] = deque()
        self._found: dict[str, dict[str, None]] = {kind: {} for kind in _ORDER}

    def mark(self, module: Module, name: str) -> None:
        """Do not take up this definition again."""
        self._seen.add((module.name, name))

    def collect(self) -> Needs:
        """Follow all that was taken up, and return it."""
        while self._waiting:
            self.use(*self._waiting.popleft())
        imports, variables, functions, classes = (tuple(self._found[kind]) for kind in _ORDER)
        return Needs(imports, variables, functions, classes)

    def use(self, module: Module, definition: Definition) -> None:
        """Take up all that a definition reads."""
        attributes = _list_chains(definition.node)
        for name in sorted(definition.uses):
            self._add_name(module, name, attributes.get(name, frozenset()))
        for imported in iter_imports(definition.node):
            # Its text has the statement already; the project's part behind it is still wanted.
            if any(self._follow(module, imported)):
                name = imported.name.partition(".")[0]
                self._add_import(module, imported, name, attributes.get(name, frozenset()))

    def use_hidden(self, target: Target) -> None:
        """Take up what the rest of the reference reads, but not that rest itself."""
        found = target.module.definitions
        for name in sorted(target.hidden & found.keys()):
            self.mark(target.module, name)
        for name in sorted(target.hidden & found.keys()):
            for one in (found[name], *found[name].members.values()):
                self.use(target.module, one)

    def add_own_class(self, target: Target) -> None:
        """Take up the class of a function and its bases: of each, what the function uses."""
        asked_by, owner = target.definition, target.owner
        assert owner
        family = self._list_family(target.module, owner)
        used: list[set[str]] = [set() for _ in family]
        wanted = [(0, "__init__"), *_list_members_used(asked_by.node, owner.name, 0)]
        while wanted:
            start, name = wanted.pop()
            for idx in range(start, len(family)):
                where, kind = family[idx]
                member = kind.members.get(name)
                if member is None:
                    continue
                if name not in used[idx] and member is not asked_by:
                    used[idx].add(name)
                    self.use(where, member)
                    wanted += _list_members_used(member.node, kind.name, idx)
                break
        for (where, kind), names in zip(family, used, strict=True):
            self.mark(where, kind.name)
            self._use_header(where, kind)
            without = target.answer if kind is owner else frozenset[str]()
            text = render_skeleton(kind, only=frozenset(names), without=without)
            self._found["class"].setdefault(text)

    def _list_family(self, module: Module, owner: Definition) -> list[tuple[Module, Definition]]:
        """Return a class and those of the project that it inherits from, nearest first."""
        family = [(module, owner)]
        for where, kind in family:
            node = kind.node
            assert isinstance(node, ast.ClassDef)
            for base in node.bases:
                origin, definition = self._find(where, unparse(base))
                is_class = definition is not None and definition.kind == "class"
                if origin and definition and is_class and (origin, definition) not in family:
                    family.append((origin, definition))
        return family

    def _use_header(self, module: Module, owner: Definition) -> None:
        node = owner.node
        assert isinstance(node, ast.ClassDef)
        bases = {unparse(base).partition(".")[0] for base in node.bases}
        for name in sorted(owner.uses):
            # Bases that are the project's own come with what is used of them.
            definition = self._find(module, name)[1]
            if name not in bases or definition is None:
                self._add_name(module, name, _list_chains(node).get(name, frozenset()))

    def _find(self, module: Module, name: str) -> tuple[Module | None, Definition | None]:
        """Return where in the project a name, maybe dotted, is defined."""
        head, _, rest = name.partition(".")
        if not rest and head in module.definitions:
            return module, module.definitions[head]
        for imported in module.imports:
            for other, attribute in self._follow(module, imported):
                wanted = rest if attribute is None and imported.name == head else attribute
                if imported.name in (head, "*") and wanted in other.definitions:
                    return other, other.definitions[wanted]
        return None, None

    def _follow(self, module: Module, imported: Import) -> Iterator[tuple[Module, str | None]]:
        """Yield the project's module behind an import, and the name in it; None for itself."""
        source = self._project.resolve(module, imported.module)
        modules = self._project.modules
        if not imported.attribute:
            if source in modules:
                yield modules[source], None
            return
        inner = f"{source}.{imported.attribute}" if source else imported.attribute
        if inner in modules:
            yield modules[inner], None
        if source in modules:
            yield modules[source], imported.attribute

    def _add_name(self, module: Module, name: str, chains: frozenset[str]) -> None:
        if name in module.definitions:
            self._add_definition(module, module.definitions[name])
            return
        for imported in module.imports:
            if imported.name.partition(".")[0] == name or imported.name == "*":
                self._add_import(module, imported, name, chains)

    def _add_import(
        self, module: Module, imported: Import, name: str, chains: frozenset[str]
    ) -> None:
        key = (module.name, imported.text, name, chains)
        if key in self._followed:
            return
        self._followed.add(key)
        own = list(self._follow(module, imported))
        if not own:
            self._found["import"].setdefault(imported.text)
            return
        for other, attribute in own:
            if attribute is None:
                prefix = imported.name + "."
                for chain in sorted(chains):
                    if chain.startswith(prefix):
                        self._add_name(other, chain[len(prefix) :].partition(".")[0], frozenset())
            else:
                # Also a name that the other module only passes on.
                self._add_name(other, name if attribute == "*" else attribute, chains)

    def _add_definition(self, module: Module, definition: Definition) -> None:
        key = (module.name, definition.name)
        if key in self._seen:
            return
        self._seen.add(key)
        if definition.kind == "class":
            for name in sorted(definition.uses):
                self._add_name(module, name, _list_chains(definition.node).get(name, frozenset()))
            self._found["class"].setdefault(render_skeleton(definition))
            return
        self._waiting.append((module, definition))
        is_function = isinstance(definition.node, FunctionNode)
        text = describe_function(definition) if is_function else definition.text
        self._found[definition.kind].setdefault(text)


def _list_chains(node: ast.AST) -> dict[str, frozenset[str]]:
    """Return the dotted names that are used, by their first part: ``a`` has ``a.b.c``."""
    found: dict[str, set[str]] = {}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute):
            text = _dotted(one)
            if text:
                found.setdefault(text.partition(".")[0], set()).add(text)
    return {name: frozenset(texts) for name, texts in found.items()}


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _list_members_used(node: ast.AST, class_name: str, idx: int) -> list[tuple[int, str]]:
    """Return attributes of ``self``, ``cls``, ``super()`` or the class, with where to look first.

    Args:
        node: A member.
        class_name: Its class.
        idx: That class's place among its bases; what ``super()`` has is looked for behind it.
    """
    found: list[tuple[int, str]] = []
    for one in ast.walk(node):
        if not isinstance(one, ast.Attribute):
            continue
        holder = one.value
        if isinstance(holder, ast.Name) and holder.id in ("self", "cls", class_name):
            found.append((0, one.attr))
        elif isinstance(holder, ast.Call) and unparse(holder.func) == "super":
            found.append((idx + 1, one.attr))
    return found
