"""Members inside their class."""

import ast

import pytest

from jupyt5_dsp.members import list_imports, list_members

CLASS = "class A(B):\n    x = 1\n\n    @cached\n    def f(self):\n        return 1\n"


def test_a_member_comes_with_its_decorators_and_the_modules_imports() -> None:
    imports = "try:\n    import a\nexcept ImportError:\n    import b\n"
    (member,) = list_members(f"from c import d\n{imports}e = d()\n{CLASS}", ["f"])
    assert member.class_name == "A"
    assert list(member.lines) == ["    @cached", "    def f(self):", "        return 1"]
    assert list(member.imports) == ["from c import d", imports.strip()]


def test_all_definitions_count_in_their_order() -> None:
    twice = f"{CLASS}\n    def f(self):\n        return 2\n"
    (member,) = list_members(twice, ["f"])
    assert [line.strip() for line in member.lines] == [
        *("@cached", "def f(self):", "return 1"),
        *("def f(self):", "return 2"),
    ]
    names = [
        one.class_name for one in list_members(f"class Base:\n    def f(self): ...\n{CLASS}", ["f"])
    ]
    assert names == ["Base", "A"]


USING = """class A:
    def first(self): ...
    def idle(self): ...
    def deep(self): return A.last()
    @staticmethod
    def last(): return self.first
    def f(self): return self.own() + other.idle()
    @property
    def own(self): return self.deep() + self.f() + self.nothing
    @own.setter
    def own(self, value): cls.given
    def given(cls): ...
"""


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("", "first deep last f own own given"),
        ("class Base:\n    def given(self): ...", "first deep last f own own"),
        ("    async def own(self): ...", "f"),
        ("self.deep = len", "f own own given"),
        ("deep: int = 1", "f own own given"),
        ("own == 1; x.own(); given2 = 1; <|int;range=1,2|>", "first deep last f own own given"),
    ],
)
def test_methods_that_it_uses_come_along(program: str, names: str) -> None:
    (member,) = list_members(USING, ["f"], program=program)
    found = [line.split("def ")[1].split("(")[0] for line in member.lines if "def " in line]
    assert " ".join(found) == names
    assert "    @staticmethod" in member.lines or "last" not in names


def test_functions_above_the_class_do_not() -> None:
    (member,) = list_members(f"K = 1\n\ndef own(): ...\n\n{CLASS}", ["f"])
    assert "own" not in "".join([*member.lines, *member.imports])


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import a; from b import *", 2),
        (
            "try:\n    import a\n    b = 1\nexcept (ImportError, OSError):\n    a = b = None",
            1,
        ),
        ("import sys\nif sys.version_info > (3, 8):\n    import a\nelse:\n    import b as a", 2),
        ("import x.y\nif x.y:\n    import a", 2),
        ("if unknown:\n    import a", 0),
        ("try:\n    import a\nexcept ImportError:\n    a = make()", 0),
        ("try:\n    import a\n    a.use()\nfinally:\n    pass", 0),
        ("if True:\n    x = 1\ny = 2\n'text'", 0),
        ("if 0:\n    import a\n" + "elif 1:\n    import b\n" * 600, 1),
    ],
)
def test_imports_do_nothing_else(source: str, count: int) -> None:
    assert len(list_imports(ast.parse(source).body)) == count


@pytest.mark.parametrize(
    "source",
    [
        f"{CLASS}\ndef f(): pass\n",
        f"{CLASS}\nreturn A().f()\n",
        f"if x:\n    return 1\n{CLASS}",
        f"with x:\n    yield 1\n{CLASS}",
        f"{CLASS}\n)",
        f"x = 1\r{CLASS}",
        "class A:\n    class B:\n        def f(self): ...\n",
        "def g():\n    class A:\n        def f(self): ...\n",
        "",
        "(" * 500,
    ],
)
def test_bodies_and_other_texts_have_none(source: str) -> None:
    assert list_members(source, ["f"]) == []
