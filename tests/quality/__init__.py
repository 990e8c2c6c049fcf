"""Labelled sets and the figures that the documentation states about them."""
