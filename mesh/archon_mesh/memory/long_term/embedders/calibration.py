"""The meaning of a model's cosines, measured with a fixed set of questions and answers.

Cosines of models differ: unrelated texts have 0.1 of some and 0.75 of others, whose vectors have a large part in
common. That part, the mean vector of the set, is subtracted from every vector. The cosine of the rest is compared with
the cosines of the set's questions: with answers of other questions (score 0), and with their own (score 1).

Source of the subtraction: Mu and Viswanath, "All-but-the-Top: Simple and Effective Postprocessing for Word
Representations", ICLR 2018.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev
from typing import Final

from archon_mesh.memory.long_term.embedders.base import Embedder, embed_queries
from archon_mesh.memory.long_term.port import Vector

REVISION: Final = 1
"""Changes with PAIRS and with the calculation: vectors of other revisions cannot be compared."""

LEAST: Final = 4.0
"""Standard deviations from the mean cosine of unrelated texts to score 1, at least: a model that hardly knows the
answers of the set gives no high scores for chance."""

PAIRS: Final = (
    ("Where does Julia live?", "Julia has a flat near the harbour of Hamburg."),
    ("What must Peter not eat?", "Peter cannot digest milk, so no cheese for him."),
    ("Which seat does she want in the theatre?", "She likes to sit in the first row of the balcony."),
    ("How much did the roof cost?", "The repair of the roof was 7,400 francs."),
    ("When does the train leave?", "Departure from platform 4 is at 8:12."),
    ("Who leads the laboratory?", "Professor Adeyemi is head of the research group."),
    ("Which editor does Sam use?", "Sam writes all of his code in Emacs."),
    ("Why did the server crash?", "The machine ran out of memory during the backup."),
    ("Which queue do we use for emails?", "Outgoing messages are put into SQS."),
    ("What did we decide about the logo?", "The new emblem will be green, without the name."),
    ("How often is the report sent?", "The sales summary goes out every second Friday."),
    ("Is there anything to know about his health?", "He had a heart attack in 2019 and takes aspirin."),
    ("What is the name of her parrot?", "Her bird is called Rocco."),
    ("Which subject does the son study?", "Their boy is at university for chemistry."),
    ("How can I reach the plumber?", "Mr. Novak, who mends pipes, has the number 555 0188."),
    ("How fast is the search page?", "Results appear after 900 milliseconds on average."),
    ("What does the customer complain about?", "The client says that the parcels arrive damaged."),
    ("Which hotel did I like?", "The guest house by the lake was wonderful, I would go there again."),
    ("Which tests fail?", "Two of the checks of the login form are red since Monday."),
    ("How do I get into the garage?", "The code of the gate is written inside the cupboard."),
    ("What sport does Omar do?", "Omar rows on the river three times a week."),
    ("When is the contract over?", "The agreement with the printer runs out in November."),
    ("What tone should the letters have?", "Please write formally, and never use exclamation marks."),
    ("How many people came to the workshop?", "There were 63 participants at the training."),
    ("Which language should answers have?", "Reply to me in Italian from now on."),
    ("What is planned for the weekend?", "On Saturday they visit the museum with friends."),
    ("Wer kümmert sich um den Garten?", "The hedges and flowers are looked after by Mr. Weber."),
    ("Wie alt ist die Großmutter?", "Grandmother turned ninety in spring."),
    ("Quel vin préfère-t-il ?", "He only drinks dry white wine."),
    ("Où sont garées les bicyclettes ?", "Bikes stand in the cellar next to the stairs."),
    ("¿Qué coche tiene la empresa?", "The firm drives a blue Toyota van."),
    ("Quando é a reunião com o banco?", "The appointment at the bank is on 3 October at 10:00."),
)
"""Questions and their answers, in several languages, each about something else, in the manner of memories."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The mean vectors of queries and of other texts, and the cosines that are the scores 0 and 1."""

    query_centre: Vector
    text_centre: Vector
    range: tuple[float, float]

    def of_query(self, vector: Vector) -> Vector:
        """Returns the vector of a query without the part that all queries have in common."""
        return _without(vector, self.query_centre)

    def of_text(self, vector: Vector) -> Vector:
        """Returns the vector of another text without the part that all of them have in common."""
        return _without(vector, self.text_centre)

    def to_json(self) -> str:
        """Returns the calibration as text."""
        return json.dumps([list(self.query_centre), list(self.text_centre), list(self.range)])

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Raises ValueError or TypeError if the text is no calibration."""
        query, passage, (low, high) = json.loads(text)
        if not low < high or len(query) != len(passage) or not query:
            raise ValueError("malformed calibration")
        return cls(array("f", query), array("f", passage), (float(low), float(high)))


async def measure(embedder: Embedder) -> Calibration:
    """Measures a model. Raises the embedder's errors."""
    all_texts = [text for pair in PAIRS for text in pair]
    queries = await embed_queries(embedder, all_texts)
    texts = await embedder.embed(all_texts)
    query_centre, text_centre = _mean(queries), _mean(texts)
    left = [_without(vector, query_centre) for vector in queries[::2]]
    right = [_without(vector, text_centre) for vector in texts[1::2]]
    related = [cosine(query, text) for query, text in zip(left, right, strict=True)]
    unrelated = [cosine(query, text) for n, query in enumerate(left) for m, text in enumerate(right) if n != m]
    mean, deviation = fmean(unrelated), pstdev(unrelated)
    high = max(fmean(related), mean + LEAST * deviation, mean + deviation + 1e-3)
    return Calibration(query_centre, text_centre, (mean + deviation, high))


def _mean(vectors: Sequence[Vector]) -> Vector:
    return array("f", [fmean(values) for values in zip(*vectors, strict=True)])


def _without(vector: Iterable[float], centre: Iterable[float]) -> Vector:
    """Raises ValueError if the dimensions differ."""
    values = [value - common for value, common in zip(vector, centre, strict=True)]
    length = sqrt(sum(value * value for value in values))
    return array("f", [value / length for value in values] if length > 1e-6 else values)


def cosine(one: Vector, other: Vector) -> float:
    """Returns the cosine of two vectors of length 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))
