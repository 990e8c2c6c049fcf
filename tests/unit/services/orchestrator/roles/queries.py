"""Queries, each with the role of a mesh that should answer it.

The first half of each list was written before the code that chooses, the second half after it.
"""

from __future__ import annotations

from typing import Final

from archon.registry import Capability, Registration, Tool

UNDECIDED: Final = ""
"""No role has a word of the query: the coordinator or a planner decides."""

TEAM: Final = (
    ("Write a poem about the sea", "writer"),
    ("What is 15 * 24?", "coder"),
    ("Write a Python function that reverses a list", "coder"),
    ("Correct the grammar of this letter: i has two cat", "editor"),
    ("Who built the Suez canal, and when was it opened?", "researcher"),
    ("Explain what this program does: print(1)", "coder"),
    ("Draft a letter to my landlord about the heating", "writer"),
    ("Does this answer meet the demand of at most 100 words?", "validator"),
    ("Design the components of a chat application", "designer"),
    ("Extract the requirements from this goal: build a calendar", "requirements"),
    ("(3 + 4) ** 5", "coder"),
    ("What is the population of Lima?", "researcher"),
    ("Make this paragraph shorter and improve its style", "editor"),
    ("Summarise the advantages of solar power in a short report", "writer"),
    ("Check the quality of this result", "validator"),
    ("How do I sort a dictionary by value in Python?", "coder"),
    ("Facts about the moons of Jupiter", "researcher"),
    # The second half.
    ("Compose a short article on bees", "writer"),
    ("How much is 17 % of 2,400?", "coder"),
    ("Where does the river Nile begin?", "researcher"),
    ("Refactor this class so that it has no global state", UNDECIDED),
    ("Proofread my essay", "editor"),
    ("Which requirements follow from this wish: users share photos", "requirements"),
    ("Is the result correct? It must name three cities.", "validator"),
    ("Propose an architecture for a booking system", "designer"),
    ("Write a function in Go that adds two numbers", "coder"),
    ("Write a thank-you note to my colleague", "writer"),
    ("When did Neil Armstrong land on the moon?", "researcher"),
    ("2.5 * (4 - 1)", "coder"),
    ("Find facts on whales", "researcher"),
    ("Rephrase this text in a friendlier style", "editor"),
    ("Review this code against its demands", "validator"),
    ("List the numbered requirements of a weather app", "requirements"),
    ("What does a mutex do in a program?", "coder"),
)
"""For the reference roles."""

SHOP: Final = (
    ("Where is my parcel 4711?", "shipping"),
    ("I want my money back for invoice 88", "billing"),
    ("Do you have red shoes in size 42?", "catalogue"),
    ("I want to send back the shoes that I bought", "returns"),
    ("Change the delivery address of my order", "shipping"),
    ("Which payment methods do you accept?", "billing"),
    ("Is there a cheaper product with the same size?", "catalogue"),
    ("What are your opening hours?", "support"),
    ("The label for my return is missing", "returns"),
    ("I have paid my invoice twice", "billing"),
    # The second half.
    ("My parcel has not arrived", "shipping"),
    ("Can you deliver to my office instead?", "shipping"),
    ("How do I get a refund?", "billing"),
    ("The shoes do not fit, can I exchange them?", "returns"),
    ("Show me coats below 100 euros", UNDECIDED),
    ("I would like to complain about your staff", "support"),
    ("Send me the invoice of last month again", "billing"),
    ("Do you sell green coats?", UNDECIDED),
    ("Print a new return label", "returns"),
    ("When does the shop open on Sundays?", "support"),
    ("Which colours does this product come in?", "catalogue"),
    ("I need help", "support"),
    ("What is the price of the product 77?", "catalogue"),
)
"""For the roles of a shop."""

SHOP_ROLES: Final = (
    Registration(
        "billing",
        description="Answers questions about invoices and payments.",
        capabilities=[
            Capability(
                "billing.refund",
                name="Refund",
                description="Pays money back to a customer.",
                tags=["invoice", "payment", "refund"],
                examples=["I was charged twice"],
            )
        ],
        tools=[
            Tool("find_invoice", "Returns an invoice by its number."),
            Tool("refund_payment", "Pays an amount of an invoice back."),
        ],
    ),
    Registration(
        "shipping",
        description="Tracks parcels, and changes where they are delivered.",
        capabilities=[
            Capability("shipping.track", name="Track", tags=["parcel", "delivery"], examples=["Where is my order?"])
        ],
        tools=[
            Tool("track_parcel", "Returns where a parcel is."),
            Tool("change_address", "Changes a delivery address."),
        ],
    ),
    Registration(
        "returns",
        description="Accepts goods that customers send back.",
        capabilities=[Capability("returns.accept", name="Accept a return", tags=["return", "label", "exchange"])],
        tools=[Tool("print_label", "Makes the label of a return.")],
    ),
    Registration(
        "catalogue",
        description="Finds products by name, size, colour and price.",
        capabilities=[
            Capability("catalogue.search", name="Search products", examples=["Shoes in size 40", "Is it in stock?"])
        ],
        tools=[Tool("search_products", "Returns products with their prices and sizes.")],
    ),
    Registration(
        "support",
        description="Answers all other questions of customers about the shop, such as its opening hours.",
        capabilities=[
            Capability("support.answer", name="Answer", tags=["help", "customers", "shop"]),
            Capability("support.complaint", name="Complaints", description="Takes a complaint of a customer."),
        ],
        tools=[Tool("search_articles", "Searches the articles of the help pages."), Tool("open_ticket")],
    ),
)
