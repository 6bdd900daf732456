"""The line of a test's marker, wherever it stands. Each source says itself where: the line that ends in ``# here``."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_cancelcontract.marker_place import marker_place

ONE = """
import pytest

@pytest.mark.filterwarnings("error")
@pytest.mark.cancel_contract(  # here
    scenarios=["polite"],
)
def test_it(cancel_contract):
    pass
"""
CASES = {
    "a function": ONE,
    "an async function": ONE.replace("def test_it", "async def test_it"),
    "a method, and not its class": """
        import pytest

        @pytest.mark.cancel_contract(grace=1)
        class TestThem:
            @pytest.mark.cancel_contract(scenarios=["polite"])  # here
            def test_it(self, cancel_contract):
                pass
        """,
    "a class": """
        import pytest
        @pytest.mark.filterwarnings("error")
        @pytest.mark.cancel_contract(scenarios=["polite"])  # here
        class TestThem:
            class TestInner:
                def test_it(self, cancel_contract):
                    pass
        """,
    "a list in a class": """
        import pytest
        class TestThem:
            pytestmark = [
                pytest.mark.filterwarnings("error"),
                pytest.mark.cancel_contract(scenarios=["polite"]),  # here
            ]
            def test_it(self, cancel_contract):
                pass
        """,
    "a class that is inherited from": """
        import pytest
        class Other:
            pass
        @pytest.mark.cancel_contract(scenarios=["polite"])  # here
        class Base:
            def test_it(self, cancel_contract):
                pass
        class TestThem(Other, Base):
            pass
        """,
    "a module": """
        import pytest
        pytestmark = pytest.mark.cancel_contract(scenarios=["polite"])  # here
        def test_it(cancel_contract):
            pass
        """,
    "a list in a module": """
        import pytest
        pytestmark: list = [
            pytest.mark.filterwarnings("error"),
            pytest.mark.cancel_contract(scenarios=["polite"]),  # here
        ]
        def test_it(cancel_contract):
            pass
        """,
    "a parameter, and not the function": """
        import pytest
        @pytest.mark.cancel_contract(scenarios=["polite"])
        @pytest.mark.parametrize("x", [
            pytest.param(1, marks=pytest.mark.cancel_contract(grace=3)),
            pytest.param(2, marks=pytest.mark.cancel_contract(grace=4)),  # here
        ])
        def test_it(x, cancel_contract):
            pass
        """,
    "the nearer of two on a function": """
        import pytest
        @pytest.mark.cancel_contract(grace=3)
        @pytest.mark.cancel_contract(scenarios=["polite"])  # here
        def test_it(cancel_contract):
            pass
        """,
    "arguments that take more than reading": """
        import pytest
        GRACE = 3
        @pytest.mark.cancel_contract(scenarios=["polite"], grace=GRACE)  # here
        def test_it(cancel_contract):
            pass
        """,
    "a marker under another name": """
        import pytest
        ours = pytest.mark.cancel_contract(scenarios=["polite"])
        @ours  # here
        def test_it(cancel_contract):
            pass
        """,
    "another name in a module's list": """
        import pytest
        ours = pytest.mark.cancel_contract(scenarios=["polite"])
        pytestmark = [ours]  # here
        def test_it(cancel_contract):
            pass
        """,
    "no marker at all": """
        def test_other():
            pass
        def test_it(cancel_contract):  # here
            pass
        """,
    "no marker, and another's test": """
        import os
        from pytest_cancelcontract.conformance import test_cancel_contract  # here
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", CASES.values(), ids=CASES)
def test_the_line_of_the_nearest_marker(pytester: pytest.Pytester, source: str) -> None:
    items = [item for item in pytester.getitems(source) if "cancel_contract" in getattr(item, "fixturenames", ())]
    found = marker_place(items[-1])
    lines = found.path.read_text().splitlines()
    assert found.path == items[-1].path
    assert lines[found.line - 1].endswith("# here"), f"{found.line}: {lines[found.line - 1]}"


def test_a_marker_in_another_file_is_told_there(pytester: pytest.Pytester) -> None:
    base = pytester.makepyfile(base=CASES["a class that is inherited from"].replace("class TestThem(Other, Base):\n            pass", ""))
    pytester.syspathinsert()
    items = pytester.getitems("from base import Base\nclass TestThem(Base):\n    pass\n")
    assert marker_place(items[0]) == (base, 4)


def test_a_marker_that_a_hook_adds_is_told_by_the_test(pytester: pytest.Pytester) -> None:
    item = pytester.getitems("import pytest\n\n@pytest.mark.filterwarnings('error')\ndef test_it(cancel_contract):\n    pass\n")[0]
    item.add_marker(pytest.mark.cancel_contract(grace=3))
    assert marker_place(item) == (item.path, 3)


def test_a_file_that_is_gone_costs_nothing_but_the_line(pytester: pytest.Pytester) -> None:
    item = pytester.getitems(CASES["a module"])[0]
    Path(item.path).unlink()
    assert marker_place(item) == (item.path, 3), "the function's own line is known without the file"
