"""Members inside their class."""

import pytest

from jupyt5_dsp.members import list_members

CLASS = "class A(B):\n    x = 1\n\n    @cached\n    def f(self):\n        return 1\n"


def test_a_member_comes_with_its_decorators_and_the_modules_imports() -> None:
    imports = "try:\n    import a\nexcept ImportError:\n    import b\n"
    (member,) = list_members(f"from c import d\n{imports}e = d()\n{CLASS}", ["f"])
    assert member.class_name == "A"
    assert list(member.lines) == ["    @cached", "    def f(self):", "        return 1"]
    assert list(member.imports) == ["from c import d", imports.strip()]


def test_the_last_definition_counts() -> None:
    twice = f"{CLASS}\n    def f(self):\n        return 2\n"
    assert list_members(twice, ["f"])[0].lines[-1] == "        return 2"
    names = [
        one.class_name for one in list_members(f"class Base:\n    def f(self): ...\n{CLASS}", ["f"])
    ]
    assert names == ["Base", "A"]


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
