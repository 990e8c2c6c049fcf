"""Templates: what they read, and that none of them takes the time or the memory of its process."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.workflows import sandbox
from archon_mesh.workflows.sandbox import MAX_ITERATIONS, MAX_RENDERED, decoded, template

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
    [("{{ flights }}", True), ("{{ [] }}", False), ("{{ 'false' }}", False), ("no", False), ("{{ city }}", True)],
)
def test_conditions_read_texts_as_people_do(source: str, is_true: bool) -> None:
    assert template(source).is_true(VALUES) is is_true


def test_a_template_in_a_value_is_plain_text() -> None:
    assert template("{{ city }}").render({"city": "{{ 7 * 7 }}"}) == "{{ 7 * 7 }}"


def test_the_names_that_a_template_reads_are_known() -> None:
    assert template("{{ a.b }} {% for c in d %}{{ c }}{% endfor %} {{ range(2) }}").names == {"a", "d"}


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 100000000000 }}",
        "{{ 100000000000 * 'x' }}",
        "{{ [0] * 100000000000 }}",
        "{{ 10 ** 1000000000 }}",
        "{{ 2 ** 3 ** 3 ** 3 ** 3 ** 3 ** 3 ** 3 ** 3 }}",
        "{{ 10 ** 1000 * 10 ** 1000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ big * 11 }}",
        "{{ (big + big) * 6 }}",
        "{{ big | replace('x', big) }}",
        "{{ big | replace('', big) }}",
        "{{ [big, big, big, big, big, big, big, big, big, big, big] | join }}",
        "{{ [1, 2, 3] | join(big * 10) | replace(',', big * 10) }}",
        "{{ 'a' | indent(1000000000, true) }}",
        "{{ ('a\n' * 1000) | indent(big) }}",
        "{{ range(1000000000) | list }}",
        "{{ range(0, 10 ** 12, 1) | length }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(5000) %}{{ big }}{% endfor %}",
        "{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}",
        "{{ [big] * 20 }}",
        "{{ flights | sum(start=[big]) }}",
        "{{ 1.5 | round(1000000000, 'ceil') }}",
        "{{ 9.9 ** 10000 }}",
    ],
)
def test_no_template_multiplies_beyond_the_bounds(source: str) -> None:
    with pytest.raises(InvalidArgument):
        template(source).value(VALUES)


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
    assert template(f"{{{{ range({MAX_ITERATIONS}) | length }}}}").value({}) == MAX_ITERATIONS
    rendered = template(f"{{% for x in range({MAX_ITERATIONS}) %}}.{{% endfor %}}").render({})
    assert len(rendered) == MAX_ITERATIONS


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
    sandbox._environment.cache_clear()
    try:
        with pytest.raises(FailedPrecondition, match="pip install jinja2"):
            template("{{ 'another text' }}")
    finally:
        sandbox._environment.cache_clear()
