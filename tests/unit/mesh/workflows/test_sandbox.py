"""Templates: what they read, and what they may not do."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.workflows import evaluate
from archon_mesh.workflows.evaluate import MAX_RENDERED
from archon_mesh.workflows.sandbox import MAX_SOURCE, decoded, template
from tests.fixtures.variants import one_in

FLIGHTS = [{"number": "A1", "price": 120, "items": ["bag"]}, {"number": "B2", "price": 80, "items": []}]
VALUES = {"city": "Rome", "nights": 2, "flights": FLIGHTS, "nothing": None, "big": "x" * 100_000}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("to {{ city }}", "to Rome"),
        ("{{ city }}", "Rome"),
        ("{{ nights }}", 2),
        ("{{ nights * 2 + 1 }}", 5),
        ("{{ flights }}", FLIGHTS),
        ("{{ flights[0].price }}", 120),
        ("{{ flights[0].items }}", ["bag"]),
        ("{{ flights | map(attribute='number') | join(', ') }}", "A1, B2"),
        ("{{ flights | selectattr('price', 'lt', 100) | list }}", [FLIGHTS[1]]),
        ("{{ flights | sum(attribute='price') }}", 200),
        ("{{ flights | length > 1 }}", True),
        ("{{ missing | default('none') }}", "none"),
        ("{% for f in flights %}{{ loop.index }}. {{ f.number }}\n{% endfor %}", "1. A1\n2. B2\n"),
        ("{% for key, value in {'a': 1, 'b': [2]}.items() %}{{ key }}{{ value }}{% endfor %}", "a1b[2]"),
        ("{% for (a, (b, c)) in [[1, [2, 3]]] %}{{ a + b + c }}{% endfor %}", "6"),
        ("{% for x in [1, 2, 3] if x > 1 %}{{ x }}{% else %}none{% endfor %}", "23"),
        ("{% for x in [] %}{{ x }}{% else %}{{ city }}{% endfor %}", "Rome"),
        ("{% for x in [[1], [2]] %}{% for x in x %}{{ x }}{{ loop.first }}{% endfor %}{% endfor %}", "1true2true"),
        ("{% if nights > 1 %}some{% else %}one{% endif %} nights", "some nights"),
        ("{{ city.upper() }} {{ city.split('o') }}", 'ROME ["R", "me"]'),
        ("{{ nothing }}|{{ true }}|{{ {'a': 1} }}", '|true|{"a": 1}'),
        ("{{ range(3) | list }}", [0, 1, 2]),
        ("{{ city }}{{ nights }}", "Rome2"),
    ],
)
def test_a_template_gives_its_value(source: str, value: Any) -> None:
    assert template(source).value(VALUES) == value


@pytest.mark.parametrize(
    ("source", "is_true"),
    [("{{ flights }}", True), ("{{ [] }}", False), ("{{ 'false' }}", False), ("no", False), ("{{ city != '' }}", True)],
)
def test_conditions_read_texts_as_people_do(source: str, is_true: bool) -> None:
    assert template(source).is_true(VALUES) is is_true


def test_a_template_in_a_value_is_plain_text() -> None:
    assert template("{{ city }}").render({"city": "{{ 7 * 7 }}"}) == "{{ 7 * 7 }}"


def test_the_names_that_a_template_reads_are_known() -> None:
    assert template("{{ a.b }} {% for c in d %}{{ c }}{% endfor %} {{ range(2) }}").names == {"a", "d"}
    nested = "{% for k, v in d.items() if v > e %}{{ k }}{{ loop.index }}{% for v in v %}{{ v }}{% endfor %}{% else %}{{ k }}"
    assert template(nested + "{% endfor %}{{ v }}").names == {"d", "e", "k", "v"}


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ city.format }}",
        "{{ '{0.__class__}'.format(city) }}",
        "{{ city.format_map({}) }}",
        "{{ city.ljust(1000000000) }}",
        "{{ city.zfill(1000000000) }}",
        "{{ city.center(1000000000) }}",
        "{{ city.join(['a', 'b']) }}",
        "{{ city.replace('R', big) }}",
        "{{ city.encode() }}",
        "{{ nights.to_bytes(1000000000, 'big') }}",
        "{{ flights.append(1) }}",
        "{{ flights.clear() }}",
        "{{ flights[0].update({}) }}",
        "{{ flights[0].pop('price') }}",
        "{{ range.__init__ }}",
        "{{ range(1).__reduce__() }}",
        "{{ self }}",
        "{{ cycler('a') }}",
        "{{ lipsum(n=1000) }}",
        "{{ namespace(a=1) }}",
        "{{ dict(a=1) }}",
        "{{ city() }}",
        "{{ unknown }}",
        "{{ flights[0].unknown }}",
        "{{ 1 / 0 }}",
        "{{ flights | first | attr('price') }}",
        "{{ city | center(1000000000) }}",
        "{{ city | format(1) }}",
        "{{ flights | slice(1000000000) | list }}",
        "{{ flights | batch(1000000000, 'x') | list }}",
        "{{ city | wordwrap(1, true, big) }}",
        "{{ flights | tojson(indent=1000000000) }}",
        "{{ flights | random }}",
        "{{ flights | map('center', 10) | list }}",
        "{{ city is callable }}",
        "{{ a ~ b }}",
        "{% set x = 1 %}",
        "{% macro f() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{% extends 'x' %}",
        "{% block x %}{% endblock %}",
        "{% filter upper %}x{% endfilter %}",
        "{% call f() %}{% endcall %}",
        "{% with a = 1 %}{% endwith %}",
        "{% for x in flights recursive %}{{ loop(flights) }}{% endfor %}",
        "{% raw",
        "{{ city",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "-" * 5000 + "1 }}",
        "x" * 30_000,
    ],
)
def test_what_a_template_may_not_do_is_an_error(source: str) -> None:
    with pytest.raises(InvalidArgument):
        template(source).value(VALUES)


def test_a_value_cannot_be_changed() -> None:
    values = {"flights": [1]}
    with pytest.raises(InvalidArgument):
        template("{% for x in flights %}{{ flights.append(x) }}{% endfor %}").value(values)
    assert values == {"flights": [1]}


def test_up_to_its_bounds_a_template_works() -> None:
    assert len(template("{{ 'x' * 1048576 }}").value({})) == MAX_RENDERED
    assert template("{{ range(100000) | length }}").value({}) == 100_000
    assert len(template("{% for x in range(100000) %}.{% endfor %}").render({})) == 100_000


@pytest.mark.parametrize(
    ("source", "is_plain"),
    [
        ("text", True),
        ("to {{ city }}, {{ flights[0].price }}", True),
        ("{{ flights }}", True),
        ("{% if nights == 2 and not nothing %}{{ city }}{% else %}-{% endif %}", True),
        ("{{ city if nights > 1 else 'home' }}", True),
        ("{{ flights | length }}", False),
        ("{{ city.upper() }}", False),
        ("{{ nights + 1 }}", False),
        ("{{ flights == flights }}", False),
        ("{{ 'x' in big }}", False),
        ("{{ flights[nights] }}", False),
        ("{{ flights[0:1] }}", False),
        ("{% for flight in flights %}{% endfor %}", False),
        ("{{ [1, 2] }}", False),
        ("{{ city is defined }}", False),
    ],
)
def test_only_a_template_that_reads_values_is_plain(source: str, is_plain: bool) -> None:
    assert template(source).is_plain is is_plain


def test_a_check_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_shown", lambda value: pytest.fail(f"computed {value}"))
    evaluate.environment.cache_clear()
    try:
        for source in ("{{ 'x' | string }}", "{{ 'x' * 10 | string }}", "{{ range(10 ** 9) | list | string }}"):
            template(source)
    finally:
        evaluate.environment.cache_clear()


SHAPES = {
    "unary operators": "{{ " + "- " * 9_990 + "n }}",
    "unary operators up to the depth": "{{ a " + "- " * 90 + "n }}" + "x" * 19_000,
    "not": "{{ " + "not " * 4_990 + "n }}",
    "parentheses": "{{ " + "(" * 9_990 + ")" * 9_990 + " }}",
    "brackets": "{{ " + "[" * 9_990 + "]" * 9_990 + " }}",
    "sums": "{{ n" + " + n" * 4_990 + " }}",
    "attributes": "{{ n" + ".n" * 9_990 + " }}",
    "items": "{{ n" + "[0]" * 6_600 + " }}",
    "filters": "{{ n" + "|int" * 4_990 + " }}",
    "conditions within each other": "{{ " + "n if n else " * 1_600 + "n }}",
    "powers": "{{ n" + "**n" * 6_600 + " }}",
    "comparisons": "{{ n" + " < n" * 4_990 + " }}",
    "expressions": "{{ n }}" * 2_850,
    "many names": " ".join(f"{{{{ n{number} }}}}" for number in range(1_700)),
    "loops": "{% for a in n %}{% endfor %}" * 700,
    "loops within each other": "{% for a in n %}" * 600 + "{% endfor %}" * 600,
    "ifs within each other": "{% if n %}" * 900 + "{% endif %}" * 900,
    "elifs": "{% if n %}" + "{% elif n %}" * 1_600 + "{% endif %}",
    "braces": "{" * 19_990,
    "opened": "{{ " * 6_600,
    "quotes": "{{ " + '"' * 19_990,
    "digits": "{{ " + "9" * 19_990 + " }}",
    "digits apart": "{{ " + "9_" * 9_990 + "9 }}",
    "hexadecimal digits": "{{ 0x" + "f" * 19_990 + " }}",
    "spaces": "{%" + " " * 19_990,
    "a list": "{{ [" + "n," * 9_900 + "] }}",
    "an object": "{{ {" + "'a':n," * 3_300 + "} }}",
    "arguments": "{{ n(" + "n," * 9_900 + ") }}",
    "keyword arguments": "{{ n(" + ",".join(f"a{number}=n" for number in range(2_000)) + ") }}",
    "comments": "{##}" * 4_990,
}


@pytest.mark.parametrize("name", one_in(4, SHAPES))
def test_the_check_of_any_shape_is_quick_and_typed(name: str) -> None:
    source = SHAPES[name]
    assert len(source) <= MAX_SOURCE
    began = time.process_time()
    with suppress(InvalidArgument):
        template(source)
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "source",
    [
        "{{ n(a=1, a=2) }}",
        "{{ n|default(a=1, a=2) }}",
        "{% for a in n %}" * 25 + "{% endfor %}" * 25,
        "{{ n\0 }}",
        "{{ 0x" + "f" * 10_000 + " }}",
        "{% for loop in n %}{{ loop }}{% endfor %}",
        "{% for a.b in n %}{% endfor %}",
        "{% for none in n %}{% endfor %}",
        "{{ n.1e5 }}",
        "{{ **n }}",
        "{{ n(*n, **n) }}",
    ],
)
def test_what_the_compilers_refuse_is_a_typed_error(source: str) -> None:
    with pytest.raises(InvalidArgument):
        template(source).value({"n": [[1, 2]]})


def test_an_error_names_what_is_missing() -> None:
    with pytest.raises(InvalidArgument, match="'unknown' is undefined"):
        template("{{ unknown }}").value({})
    with pytest.raises(InvalidArgument, match="price"):
        template("{{ flight.price }}").value({"flight": {}})


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ('[{"a": 1}]', [{"a": 1}]),
        (' {"a": 1}\n', {"a": 1}),
        ("12", 12),
        ("-1.5", -1.5),
        ("true", True),
        ("007", "007"),
        ("1e3", "1e3"),
        ("12 nights", "12 nights"),
        ("{not json", "{not json"),
        ("", ""),
        ((1, {2: None}), [1, {"2": None}]),
    ],
)
def test_results_have_the_value_that_they_write(result: Any, value: Any) -> None:
    assert decoded(result) == value
    assert type(decoded(result)) is type(value)


def test_without_jinja_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    evaluate.environment.cache_clear()
    try:
        with pytest.raises(FailedPrecondition, match="pip install jinja2"):
            template("{{ 'another text' }}")
    finally:
        evaluate.environment.cache_clear()
