"""Statements that contradict each other are found, and statements that do not are left alone."""

from __future__ import annotations

import pytest

from archon_mesh.core.claims import claims, contradiction, may_contradict

CONTRADICT = [
    ("Ana is vegetarian.", "Ana is not vegetarian."),
    ("Ana is vegetarian.", "Ana isn't vegetarian"),
    ("Ana likes fish", "Ana doesn't like fish."),
    ("Ana loves fish", "Ana hates fish"),
    ("I no longer eat meat.", "I eat meat"),
    ("I never drink coffee.", "I drink coffee."),
    ("Ana lives in Rome.", "Ana lives in Oslo now."),
    ("Ben works at Acme", "Ben works for Globex"),
    ("Ana's favourite colour is blue.", "Ana\u2019s favourite colour is green."),
    ("My name is Ana.", "My name is Eva."),
    ("The deadline of the project is Friday.", "The deadline of the project is Monday."),
    ("The server has 8 cores.", "The server has 16 cores."),
    ("The meeting starts at 10:30.", "The meeting starts at 11:00"),
    ("default branch: main", "default branch: trunk"),
    ("Ana has a dog. Ana lives in Rome.", "Ana lives in Oslo. She likes it."),
]

AGREE = [
    ("Ana is vegetarian.", "Ana is a doctor."),
    ("Ana is vegetarian.", "Ben is not vegetarian."),
    ("Ana likes fish.", "Ana likes meat."),
    ("Ana likes fish.", "Ana does not like meat."),
    ("Ana lives in Rome.", "Ana lives in Rome, Italy."),
    ("Ana lives in Rome.", "Ana lived in Oslo."),
    ("Ana lives in Rome.", "Ben lives in Oslo."),
    ("Ana lives in Rome.", "Does Ana live in Oslo?"),
    ("If Ana lives in Rome, book a train.", "Ana lives in Oslo."),
    ("Ana's favourite colour is blue.", "Ana's favourite dish is pasta."),
    ("The server has 8 cores.", "The server has 16 GiB of memory."),
    ("Version 1.2 is out.", "Version 1.2 is out."),
    ("It is broken.", "It is not broken."),
    ("Ana's colour is blue.", "Ana's colour is not green."),
    ("Use 5 replicas.", "Order 7 pizzas."),
    ("", "x"),
]


@pytest.mark.parametrize(("one", "other"), CONTRADICT)
def test_a_contradiction_is_found_in_both_orders(one: str, other: str) -> None:
    assert contradiction(one, other)
    assert contradiction(other, one) == contradiction(one, other)
    assert may_contradict(one)
    assert may_contradict(other)


@pytest.mark.parametrize(("one", "other"), AGREE)
def test_statements_that_agree_are_left_alone(one: str, other: str) -> None:
    assert contradiction(one, other) == ""
    assert contradiction(other, one) == ""
    assert contradiction(one, one) == ""


def test_a_long_text_costs_little() -> None:
    assert not list(claims("very " * 20_000))
    assert contradiction("a is " * 20_000, "a is not " * 20_000) == ""
